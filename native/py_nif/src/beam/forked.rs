//! Whether this process is a copy of the node, made by `fork` without `exec`: Python's
//! `multiprocessing` and `os.fork` make such copies.
//!
//! A copy has the one thread that forked. The VM's threads are gone and its locks are as they
//! were at that moment, so nothing here calls the VM in a copy: messages are not sent, references
//! are not counted. A loop has no keeper there and waits by itself.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

/// Called once, when the library is loaded.
pub fn notice() {
    extern "C" fn in_copy() {
        FORKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the function is async-signal-safe and stays loaded. Out of memory, the only error,
    // leaves copies without support.
    unsafe { libc::pthread_atfork(None, None, Some(in_copy)) };
}

/// Relaxed: it was set before this process had any other thread.
#[inline]
pub fn is_copy() -> bool {
    FORKED.load(Ordering::Relaxed)
}
