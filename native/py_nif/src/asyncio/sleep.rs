//! `py_event_loop._erlang_sleep`: a thread sleeps on a timer of the VM.

use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

use crate::cpython::process::main_thread;
use crate::loops::sleeps::Sleep;

/// As in `time.sleep`: the largest signed number of nanoseconds.
const LONGEST_MS: f64 = i64::MAX as f64 / 1e6;

/// Signal handlers run on the main thread, and nothing else wakes it for them.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);

const UNLIMITED: Duration = Duration::from_nanos(u64::MAX / 2);

/// Sleeps for `ms` milliseconds, without the GIL; never shorter. For threads: a coroutine awaits
/// `asyncio.sleep`.
#[pyfunction]
#[pyo3(signature = (ms, /))]
pub fn _erlang_sleep(py: Python<'_>, ms: f64) -> PyResult<()> {
    if ms.is_nan() {
        return Err(PyValueError::new_err("Invalid value NaN (not a number)"));
    }
    if ms < 0.0 {
        return Err(PyValueError::new_err("sleep length must be non-negative"));
    }
    if ms >= LONGEST_MS {
        return Err(PyOverflowError::new_err("sleep length is too large"));
    }
    let limit = match main_thread::is_this() {
        true => LOOK_FOR_SIGNALS,
        false => UNLIMITED,
    };
    let mut sleep = Sleep::new(Duration::from_nanos((ms * 1e6).ceil() as u64));
    while !py.detach(|| sleep.wait(limit)) {
        py.check_signals()?;
    }
    py.check_signals()
}
