//! Reports handlers that blocked the loop: `loop.set_blocking_threshold`.
//!
//! Debug mode reports slow callbacks, at the price of debug mode. This reads the clock twice per
//! callback, and costs nothing while no threshold is set.

use event_loop::now_ns;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::class::{Loop, nanoseconds};
use crate::asyncio::handles::ready::Item;
use crate::asyncio::turn::item;

/// Makes the loop call `loop._handler_blocked(source, seconds)` for handlers that ran that long;
/// None: never.
#[pyfunction]
#[pyo3(signature = (event_loop, seconds, /))]
pub fn set_blocking_threshold(event_loop: &Bound<'_, Loop>, seconds: Option<f64>) -> PyResult<()> {
    if seconds.is_some_and(|seconds| seconds.is_nan() || seconds < 0.0) {
        return Err(PyValueError::new_err(
            "the threshold must be a number of seconds that is not negative, or None",
        ));
    }
    let limit = seconds.map(nanoseconds);
    event_loop
        .get()
        .callbacks
        .threshold
        .set(event_loop.py(), limit);
    Ok(())
}

/// Runs `ready`; a handler that took `limit` nanoseconds or more is reported.
pub fn run_timed(slf: &Bound<'_, Loop>, ready: Item, limit: u64) -> PyResult<()> {
    let py = slf.py();
    // Taken first, because a callback that has run is dropped.
    let source = source(py, &ready);
    let started = now_ns();
    let result = item::run_untimed(slf, ready);
    let took = now_ns().saturating_sub(started);
    if took >= limit
        && let Some(source) = source
    {
        slf.call_method1("_handler_blocked", (source, took as f64 / 1e9))?;
    }
    result
}

/// For debug mode: as `loop._run_handle_debug`, for the operations of native transports, which have
/// no handle.
pub fn run_debugged(
    slf: &Bound<'_, Loop>,
    transport: &Bound<'_, PyAny>,
    action: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let started = now_ns();
    let result = action();
    let took = now_ns().saturating_sub(started);
    slf.call_method1("_transport_took", (transport, took as f64 / 1e9))?;
    result
}

/// The source to report: the callback itself, a transport, an operation on a socket.
fn source(py: Python<'_>, item: &Item) -> Option<Py<PyAny>> {
    match item {
        Item::Callback(handle) => handle.get().callback(py),
        Item::Io(object, _) => Some(object.object().clone_ref(py)),
        Item::Once(step) => Some(step.source().clone_ref(py)),
    }
}
