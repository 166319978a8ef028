//! Dropping Python objects on threads that do not have the GIL and must not wait for it.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use crate::cpython::process::{finalizing, main_thread};

/// PyO3 keeps a list of such objects, which is cleared by the next thread that attaches (or calls into
/// this library). To make this soon even if Python is idle, its main thread is woken.
pub fn release(object: Py<PyAny>) {
    /// The main thread has been woken for this and has not run yet.
    static WOKEN: AtomicBool = AtomicBool::new(false);
    drop(object);
    // The flag is cleared before the list is: a later object wakes the thread again.
    if !WOKEN.swap(true, Ordering::AcqRel) {
        let posted = main_thread::post(|_| {
            WOKEN.store(false, Ordering::Release);
            finalizing::attach(|_| ());
        });
        if !posted {
            // A program occupies the main thread until the process ends: its own calls clear the
            // list.
            WOKEN.store(false, Ordering::Release);
        }
    }
}
