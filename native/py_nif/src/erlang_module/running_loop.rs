//! The event loop that runs on this thread, ours or another one.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::asyncio::loop_class::class::Loop;
use crate::loops::Recipient;
use crate::requests::calls;

/// The loop that runs on this thread.
pub fn running_loop(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // A program without asyncio has no loop, and must not import asyncio for this.
    if RUNNING.get(py).is_none()
        && calls::loaded(py, pyo3::intern!(py, "asyncio.events"))?.is_none()
    {
        return Ok(None);
    }
    let running = RUNNING
        .import(py, "asyncio.events", "_get_running_loop")?
        .call0()?;
    Ok((!running.is_none()).then_some(running))
}

/// Where posts for the loop that runs on this thread go.
pub fn recipient(running: &Bound<'_, PyAny>) -> PyResult<Recipient> {
    match running.cast::<Loop>() {
        Ok(ours) => {
            let native = ours.get().native(running.py())?;
            Ok(Recipient::Native(Arc::downgrade(&native)))
        }
        Err(_) => Ok(Recipient::Foreign(running.clone().unbind())),
    }
}
