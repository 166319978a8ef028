//! The command line of `bin/erlang-loop`: python's own `main`, run on Python's main thread.
//!
//! Nothing of python's behaviour is written anew here. It parses its options, runs the program,
//! prints the traceback and ends the process as it always does; this file only sees to it that
//! the VM around it is not noticed.
#![allow(unsafe_code)]

use std::env;
use std::ffi::{c_int, c_void, CString};

use pyo3::ffi;
use pyo3::prelude::*;

use super::command_signals;
use super::interpreter::{self, Settings};

/// Runs `python arguments...` to the end of the process.
pub fn run(settings: &Settings, arguments: &[CString]) -> ! {
    end_without_destructors();
    restore_environment();
    if let Err(error) = command_signals::take_over() {
        eprintln!("erlang-loop: signals may be late: {error}");
    }
    interpreter::start_command(settings, arguments);
    // SAFETY: `start_command` left this thread attached, as its first (main) thread state, which
    // is how `Py_RunMain` wants it. It finalizes Python before it returns.
    let code = unsafe {
        if let Err(error) = prepare(Python::assume_attached()) {
            error.print(Python::assume_attached());
            libc::exit(1);
        }
        ffi::Py_RunMain()
    };
    // SAFETY: as `Py_BytesMain`'s caller does. Python itself exits the same way on `sys.exit`.
    unsafe { libc::exit(code) }
}

/// What makes it more than python: asyncio's default loop is ours.
fn prepare(py: Python<'_>) -> PyResult<()> {
    py.import("erlang_loop_default")?
        .call_method0("install")
        .map(drop)
}

/// `erl` is a script that puts variables of its own into the environment; `bin/erlang-loop` has
/// kept the former values.
fn restore_environment() {
    // Python has not been started, and the VM copied its environment at boot: nobody else looks.
    for name in ["PATH", "BINDIR", "EMU", "PROGNAME", "ROOTDIR"] {
        let saved = format!("ERLANG_LOOP_SAVED_{name}");
        match env::var_os(&saved) {
            Some(value) => env::set_var(name, value),
            None => env::remove_var(name),
        }
        env::remove_var(saved);
    }
    env::remove_var("ERLANG_LOOP_ROOT");
}

/// `exit` runs the destructors of the whole process, those of the VM among them, while the VM's
/// threads go on: now and then one of them would crash on the way out. What was registered
/// before this (the VM's) is skipped, what comes later (extension modules) has its turn.
fn end_without_destructors() {
    #[cfg(target_env = "gnu")]
    {
        extern "C" {
            // Not in the libc crate.
            fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void)
                -> c_int;
            static stdout: *mut libc::FILE;
        }
        extern "C" fn end(status: c_int, _argument: *mut c_void) {
            // SAFETY: C's own buffer of stdout is what `exit` would flush next; extension
            // modules may have printed there.
            unsafe {
                libc::fflush(stdout);
                libc::_exit(status)
            }
        }
        // SAFETY: `end` lives as long as the library, which is pinned.
        unsafe { on_exit(end, std::ptr::null_mut()) };
    }
}
