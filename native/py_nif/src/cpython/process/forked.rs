//! The end of a forked copy of the node, in which only the Python code that forked goes on.
//!
//! When that code returns to the node, the copy ends as python ends after its program: with a
//! traceback, the exit functions and an exit code. Whatever follows belongs to the node, which
//! continues with it: other requests, other callbacks of a loop that Erlang started, a reply.
//! `python/erlang_loop_fork.py` is the Python part. Exit handlers of libraries do not run, as
//! in the node: a lock that another thread held when the copy was made is never released.

use pyo3::prelude::*;

use super::process_end;
use crate::beam::forked;

/// Called when code that a thread of the node called has returned. In a copy, that code has forked:
/// the copy ends.
#[inline]
pub fn end_if_copy<T>(py: Python<'_>, outcome: &PyResult<T>) {
    if forked::is_copy() {
        end(py, "end", outcome.as_ref().err());
    }
}

/// As [`end_if_copy`], for a callback of a loop that Erlang started: it may be the step of a task,
/// which keeps its exception.
#[inline]
pub fn end_if_copy_after_callback<T>(py: Python<'_>, outcome: &PyResult<T>) {
    if forked::is_copy() {
        end(py, "end_callback", outcome.as_ref().err());
    }
}

#[cold]
fn end(py: Python<'_>, how: &str, error: Option<&PyErr>) -> ! {
    let error = error.map(|error| error.clone_ref(py).into_value(py));
    let status = py
        .import("erlang_loop_fork")
        .and_then(|module| module.call_method1(how, (error,)))
        .and_then(|status| status.extract::<i32>());
    let status = status.unwrap_or_else(|error| {
        error.print(py);
        1
    });
    process_end::end(status)
}
