//! Parks the threads that ask for the GIL while Python finalizes, or later.
//!
//! The command line ends with `Py_FinalizeEx`, as python does, while other threads exist: daemon
//! threads, threads of loops that Erlang started, call threads. From then on none of them gets the
//! GIL. Up to 3.13 CPython ends such a thread with `pthread_exit`, wherever it is: glibc unwinds
//! its stack, and the process aborts at the first `catch_unwind` or `extern "C"` of Rust, or
//! crashes in a destructor that touches Python objects without the GIL. In CPython 3.14 the thread
//! sleeps until the process ends (<https://github.com/python/cpython/issues/87135>), and this file
//! gives earlier versions the same behaviour: libpython's calls of `pthread_exit` are redirected
//! here.
//!
//! Our own threads do not ask CPython before they attach for the first time: [`attach`] parks them.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;

use super::main_thread;

/// As [`Python::attach`], which panics while Python finalizes: in that case the thread is parked.
pub fn attach<R>(work: impl FnOnce(Python<'_>) -> R) -> R {
    let mut work = Some(work);
    // `work` is still there unless it was run.
    let run = |py: Python<'_>| work.take().map(|work| work(py));
    if let Some(Some(result)) = Python::try_attach(run) {
        return result;
    }
    let work = work.expect("it was not run");
    // SAFETY: reads a flag.
    if !main_thread::is_ready() || unsafe { ffi::Py_IsInitialized() } != 0 && !is_finalizing() {
        // Python is not running, or its collector visits an object: PyO3's message says which.
        #[allow(clippy::disallowed_methods)]
        return Python::attach(work);
    }
    match main_thread::is_this() {
        // SAFETY: the thread that finalizes Python has the GIL while it does, and our destructors
        // run on it.
        true => unsafe { Python::attach_unchecked(work) },
        false => park(),
    }
}

/// Sleeps until the process ends. Signal handlers still run on this thread.
pub fn park() -> ! {
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

fn is_finalizing() -> bool {
    #[cfg(not(Py_3_13))]
    unsafe extern "C" {
        // PyO3 lacks it.
        #[link_name = "_Py_IsFinalizing"]
        fn Py_IsFinalizing() -> std::ffi::c_int;
    }
    #[cfg(Py_3_13)]
    use ffi::Py_IsFinalizing;
    // SAFETY: reads a flag; allowed on any thread at any time.
    unsafe { Py_IsFinalizing() != 0 }
}

/// Called before Python starts.
#[cfg(not(Py_3_14))]
pub fn park_instead_of_ending_threads() {
    use std::ffi::c_void;

    use crate::beam::imports;

    unsafe extern "C-unwind" fn end(value: *mut c_void) -> ! {
        if is_finalizing() {
            park()
        }
        // Called by an extension that ends a thread of its own.
        // SAFETY: looked up by name, because our own import is redirected, too, if libpython is a
        // part of this library; glibc and musl have it. This frame has nothing to drop.
        unsafe {
            let original = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_exit".as_ptr());
            let original: unsafe extern "C-unwind" fn(*mut c_void) -> ! =
                std::mem::transmute(original);
            original(value)
        }
    }
    // SAFETY: `end` does what `pthread_exit` does while Python runs, never returns, and this
    // library stays loaded.
    let parked = unsafe {
        imports::redirect(
            ffi::Py_IsInitialized as *const c_void,
            c"pthread_exit",
            end as *const c_void,
        )
    };
    debug_assert!(parked, "libpython does not import pthread_exit");
}

#[cfg(Py_3_14)]
pub fn park_instead_of_ending_threads() {}
