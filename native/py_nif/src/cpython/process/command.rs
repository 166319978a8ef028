//! The command line of `bin/erlang-loop`: python's own `main`, run on Python's main thread.
//!
//! Nothing of python's behaviour is reimplemented here. It parses its options, runs the program,
//! prints the traceback and ends the process as usual; this file only hides the VM around it.
#![allow(unsafe_code)]

use std::env;
use std::ffi::{CString, OsString};

use pyo3::ffi;

use super::command_signals;
use super::interpreter;
use super::interpreter::Settings;

/// Runs `python arguments...` to the end of the process.
pub fn run(settings: &Settings, arguments: &[CString]) -> ! {
    restore_environment();
    command_signals::ignore(ignored_signals());
    if let Err(error) = command_signals::take_over() {
        eprintln!("erlang-loop: signals may be late: {error}");
    }
    interpreter::start_command(settings, arguments);
    super::main_thread::set_ready();
    // SAFETY: `start_command` left this thread attached with the first (main) thread state, as
    // `Py_RunMain` requires. It finalizes Python before it returns.
    let code = unsafe { ffi::Py_RunMain() };
    // SAFETY: as `Py_BytesMain`'s caller does. Python itself exits the same way on `sys.exit`.
    unsafe { libc::exit(code) }
}

/// `erl` is a script that sets environment variables; `bin/erlang-loop` has saved their former
/// values.
fn restore_environment() {
    for name in [
        "PATH",
        "BINDIR",
        "EMU",
        "PROGNAME",
        "ROOTDIR",
        "LD_LIBRARY_PATH",
    ] {
        let saved = format!("ERLANG_LOOP_SAVED_{name}");
        set_variable(name, env::var_os(&saved));
        set_variable(&saved, None);
    }
    set_variable("ERLANG_LOOP_ROOT", None);
    // From the command of the wheel.
    set_variable("ERLANG_LOOP_PYTHON", None);
}

fn set_variable(name: &str, value: Option<OsString>) {
    // SAFETY: Python has not been started, and the VM copied its environment at boot: no other
    // thread reads it.
    unsafe {
        match value {
            Some(value) => env::set_var(name, value),
            None => env::remove_var(name),
        }
    }
}

/// Those that were ignored before the VM started, as `bin/erlang-loop` found them: bit 0 is signal 1.
fn ignored_signals() -> u64 {
    let name = "ERLANG_LOOP_IGNORED_SIGNALS";
    let mask = env::var(name).unwrap_or_default();
    set_variable(name, None);
    // Without a value, `erl` was not started by `bin/erlang-loop`.
    u64::from_str_radix(&mask, 16).unwrap_or(0)
}
