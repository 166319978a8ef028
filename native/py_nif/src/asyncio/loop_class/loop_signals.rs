//! The native functions of `erlang_loop.loop.signals`.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use super::class::Loop;
use crate::cpython::process::main_thread;
use crate::loops::signals;
use crate::loops::signals::Settled;

/// Makes the loop call `loop._handle_signal(number)` in a turn when the signal arrives, or stops
/// that. False if the Erlang VM does not release this signal.
#[pyfunction]
#[pyo3(signature = (event_loop, number, on, /))]
pub fn signal_watch(event_loop: &Bound<'_, Loop>, number: i32, on: bool) -> PyResult<bool> {
    if !(1..=64).contains(&number) {
        return Err(PyValueError::new_err(format!(
            "invalid signal number {number}"
        )));
    }
    let native = event_loop.get().native(event_loop.py())?;
    match event_loop
        .py()
        .detach(|| signals::watch(&native.signals, number, on))
    {
        Settled::Done => Ok(true),
        Settled::Refused => Ok(false),
        Settled::NotRunning => Err(PyRuntimeError::new_err(
            "signals reach a loop while the erlang_loop application runs, and it does not",
        )),
    }
}

/// Whether this is the process of a command line (`bin/erlang-loop`): its signals are Python's.
#[pyfunction]
pub fn runs_command() -> bool {
    main_thread::is_occupied()
}

/// Calls `_handle_signal` for the signals that arrived.
#[cold]
pub fn take(slf: &Bound<'_, Loop>) -> PyResult<()> {
    for number in slf.get().native(slf.py())?.signals.take() {
        slf.call_method1(intern!(slf.py(), "_handle_signal"), (number,))?;
    }
    Ok(())
}
