//! What asyncio's `StreamReaderProtocol` does with data, without Python frames: put it into the
//! reader's buffer and wake the waiting reader (`bench/`: streams).
//!
//! Only for asyncio's classes themselves: a subclass, or a class with a replaced method, is called
//! in the ordinary way.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyType};

use crate::cpython::method_calls::{call0, call1, complete};

static PROTOCOL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static READER: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Whether [`feed`] does what this protocol's `data_received` would do.
pub fn feeds_one(protocol: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = protocol.py();
    let class = PROTOCOL.import(py, "asyncio.streams", "StreamReaderProtocol")?;
    if !protocol.get_type().is(class) {
        return Ok(false);
    }
    let reader = READER.import(py, "asyncio.streams", "StreamReader")?;
    Ok(is_asyncios(class, "data_received")?
        && is_asyncios(reader, "feed_data")?
        && is_asyncios(reader, "_wakeup_waiter")?)
}

fn is_asyncios(class: &Bound<'_, PyType>, method: &str) -> PyResult<bool> {
    class
        .getattr(method)?
        .getattr("__module__")?
        .eq("asyncio.streams")
}

/// `protocol.data_received(data)`.
pub fn feed(protocol: &Bound<'_, PyAny>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
    let py = protocol.py();
    let weak = protocol.getattr(intern!(py, "_stream_reader_wr"))?;
    if weak.is_none() {
        return Ok(());
    }
    let reader = weak.call0()?;
    if reader.is_none() {
        return Ok(());
    }
    let ordinary = READER
        .get(py)
        .is_some_and(|class| reader.get_type().is(class));
    // Data after the end is an error that asyncio reports.
    if !ordinary || reader.getattr(intern!(py, "_eof"))?.is_truthy()? {
        return call1(&reader, intern!(py, "feed_data"), data.as_any()).map(drop);
    }
    let buffer = reader.getattr(intern!(py, "_buffer"))?;
    call1(&buffer, intern!(py, "extend"), data.as_any())?;
    wake(&reader)?;
    pause_above_limit(&reader, &buffer)
}

fn wake(reader: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = reader.py();
    let waiter = reader.getattr(intern!(py, "_waiter"))?;
    if waiter.is_none() {
        return Ok(());
    }
    reader.setattr(intern!(py, "_waiter"), py.None())?;
    complete(&waiter)
}

fn pause_above_limit(reader: &Bound<'_, PyAny>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = reader.py();
    let length = match buffer.cast_exact::<PyByteArray>() {
        Ok(buffer) => buffer.len(),
        Err(_) => buffer.len()?,
    };
    let limit = reader.getattr(intern!(py, "_limit"))?.extract::<f64>()?;
    if length as f64 <= 2.0 * limit {
        return Ok(());
    }
    let transport = reader.getattr(intern!(py, "_transport"))?;
    if transport.is_none() || reader.getattr(intern!(py, "_paused"))?.is_truthy()? {
        return Ok(());
    }
    match call0(&transport, intern!(py, "pause_reading")) {
        Ok(_) => reader.setattr(intern!(py, "_paused"), true),
        // The transport cannot pause: asyncio does not try again either.
        Err(error) if error.is_instance_of::<PyNotImplementedError>(py) => {
            reader.setattr(intern!(py, "_transport"), py.None())
        }
        Err(error) => Err(error),
    }
}
