//! How a process in which Python has run ends.
//!
//! `erlang:halt/1`, and with it `init:stop/0`, calls C's `exit`. That runs the exit handlers and
//! destructors of all libraries in the process while all threads go on: OpenSSL frees its tables
//! under a thread that encrypts, which crashes. A process with one `main` can join its threads
//! first. That is impossible here: the VM's threads never end, and Python's may be anywhere in C.
//! So the VM's call of `exit` is redirected to [`end`], which runs none of these handlers.
//!
//! Python is not finalized in a node. What its programs may rely on at the end happens earlier:
//! `py_interpreter` requests it while the node stops, and `erlang_loop_end` does it on Python's
//! main thread. If the application was stopped before, [`end`] requests it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use super::{child_processes, finalizing, main_thread};
use crate::beam::{forked, imports};

/// Called before Python starts.
pub fn install() {
    // SAFETY: `redirected_exit` ends the process with the status it is given, and this library
    // stays loaded. Only the VM has `enif_alloc`.
    let redirected = unsafe {
        imports::redirect(
            rustler::sys::enif_alloc as *const c_void,
            c"exit",
            redirected_exit as *const c_void,
        )
    };
    debug_assert!(redirected, "the VM does not import exit");
    register_exit_handler();
}

unsafe extern "C" fn redirected_exit(status: c_int) -> ! {
    end(status)
}

/// For calls of `exit` by other code: libpython, extension modules, and ourselves at the end of a
/// command. Handlers registered before (by the VM) are skipped; handlers that extension modules
/// register later run first, as in python.
fn register_exit_handler() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            // The libc crate lacks it.
            fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void)
            -> c_int;
        }
        extern "C" fn handler(status: c_int, _argument: *mut c_void) {
            end(status)
        }
        // SAFETY: `handler` lives as long as the library, which is pinned.
        unsafe { on_exit(handler, std::ptr::null_mut()) };
    }
}

/// Ends the process, which may be a forked copy of the node.
pub fn end(status: c_int) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if !forked::is_copy() {
        if ENDING.swap(true, Ordering::Relaxed) {
            // Another thread is here already, and its status counts.
            finalizing::park();
        }
        end_python();
        child_processes::kill_all();
    }
    // SAFETY: flushes C's own buffer of stdout, as `exit` would; extension modules may have printed
    // there.
    unsafe {
        libc::fflush(stdout());
        libc::_exit(status)
    }
}

fn stdout() -> *mut libc::FILE {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: C sets it before `main` and never changes it.
    unsafe { stdout }
}

// ---- Python's end, if the application was stopped before the node ----

/// The time limit for Python's end; `None`: it is not requested then.
static AT_EXIT: Mutex<Option<Duration>> = Mutex::new(None);

fn timeout() -> MutexGuard<'static, Option<Duration>> {
    // Only ever replaced as a whole.
    AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets whether Python ends with the process, and the time limit for that.
pub fn at_exit(limit: Option<Duration>) {
    *timeout() = limit;
}

/// Erlang processes do not run any more, so errors are printed.
fn end_python() {
    let Some(limit) = *timeout() else { return };
    let (sender, receiver) = mpsc::channel();
    let posted = main_thread::post(move |py| {
        let ended = main_thread::call(py, "erlang_loop_end", "run", &[]);
        // The waiting thread may have timed out.
        let _ = sender.send(ended.map(drop));
    });
    if !posted {
        // Python was never started, or its main thread runs a command.
        return;
    }
    match receiver.recv_timeout(limit) {
        Ok(Ok(())) => {}
        Ok(Err(why)) => eprintln!("erlang_loop: ending Python raised an exception:\n{why}"),
        Err(_) => eprintln!(
            "erlang_loop: Python did not end within {limit:?}: its threads or atexit functions \
             still run"
        ),
    }
}
