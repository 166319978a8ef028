//! Ends the pid that a plain function requested (`erlang.self`) when its call ends.

use std::cell::Cell;

use pyo3::prelude::*;

thread_local! {
    /// Whether code on this thread has ever asked for its pid.
    static HAS_MAILBOX: Cell<bool> = const { Cell::new(false) };
}

/// Records that the code of this thread's call has a mailbox.
pub fn mark() {
    HAS_MAILBOX.set(true);
}

/// A call thread has finished a call: ends the pid that the code requested.
pub fn call_ended(py: Python<'_>) {
    if HAS_MAILBOX.replace(false) {
        let ended = py
            .import("erlang.mailboxes")
            .and_then(|module| module.call_method0("_call_ended"));
        if let Err(error) = ended {
            error.write_unraisable(py, None);
        }
    }
}
