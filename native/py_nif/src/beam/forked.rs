//! Whether this process is a copy of the node, created by `fork` without `exec`: Python's
//! `multiprocessing` and `os.fork` create such copies.
//!
//! A copy has only the thread that forked. The VM's threads do not exist in it, and the VM's locks
//! are as they were at the fork, so nothing here calls the VM in a copy: no messages are sent, and
//! no references are counted. A loop has no keeper there and waits by itself.
//!
//! The VM's signal handlers write to a pipe, which a copy shares with the node: the node would
//! receive the copy's signals. So the fork happens with all signals blocked, and the copy unblocks
//! them when the VM's handlers are removed.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::signal;

static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The signals that the thread had blocked before it forked.
    static BLOCKED: Cell<libc::sigset_t> = const {
        // SAFETY: a set of integers, and the empty set.
        Cell::new(unsafe { MaybeUninit::zeroed().assume_init() })
    };
}

/// Called once, when the library is loaded.
pub fn notice() {
    extern "C" fn before() {
        BLOCKED.set(block_signals());
    }
    extern "C" fn in_node() {
        restore_signals(&BLOCKED.get());
    }
    extern "C" fn in_copy() {
        FORKED.store(true, Ordering::Relaxed);
        signal::remove_handlers_of_vm();
        restore_signals(&BLOCKED.get());
    }
    signal::find_vm();
    // SAFETY: the functions are async-signal-safe and stay loaded. The only error is a lack of
    // memory; copies are not supported then.
    unsafe { libc::pthread_atfork(Some(before), Some(in_node), Some(in_copy)) };
}

/// Relaxed: the flag was set before this process had any other thread.
#[inline]
pub fn is_copy() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Blocks all signals of the calling thread and returns those that it blocked before.
pub fn block_signals() -> libc::sigset_t {
    // SAFETY: sets on this frame, which the calls fill.
    unsafe {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::zeroed());
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Restores what [`block_signals`] returned.
pub fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set that the kernel filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}
