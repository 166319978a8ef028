//! From the application to the socket: encrypt what it writes, and send that at once.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PySlice};

use super::states::{failed, flag, pending, state, states, wants_more};
use crate::python::transports::{call0, call1, StreamTransport};

/// `write` of the application's transport.
pub fn write(transport: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = transport.py();
    let known = data.is_instance_of::<PyBytes>()
        || data.is_instance_of::<PyByteArray>()
        || data.is_instance_of::<PyMemoryView>();
    if !known {
        let name = data.get_type().name()?;
        let text = format!("data: expecting a bytes-like instance, got {name}");
        return Err(PyTypeError::new_err(text));
    }
    if !data.is_truthy()? {
        return Ok(());
    }
    let protocol = transport.getattr(intern!(py, "_ssl_protocol"))?;
    // Before the handshake, after the end, behind data that waits: asyncio's own way.
    let direct = !protocol.is_none()
        && state(&protocol)?.is(&states(py)?.wrapped)
        && !flag(&protocol, intern!(py, "_write_backlog"))?;
    if !direct {
        return call1(
            &protocol,
            intern!(py, "_write_appdata"),
            (data,).into_pyobject(py)?.as_any(),
        )
        .map(drop);
    }
    encrypt(&protocol, data)
        .and_then(|()| process_outgoing(&protocol))
        .or_else(|error| failed(&protocol, error))
}

/// A record after the other; what OpenSSL does not take now waits in asyncio's backlog.
fn encrypt(protocol: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = protocol.py();
    let tls = protocol.getattr(intern!(py, "_tls"))?;
    let write = intern!(py, "write");
    let mut rest = match data.is_instance_of::<PyMemoryView>() {
        // Counted in bytes from here on, whatever its items are.
        true => call1(data, intern!(py, "cast"), intern!(py, "B").as_any())?,
        false => data.clone(),
    };
    loop {
        let length = rest.len()?;
        let count = match call1(&tls, write, &rest) {
            Ok(count) => count.extract::<usize>()?,
            Err(error) if wants_more(py, &error)? => return wait(protocol, &rest, length),
            Err(error) => return Err(error),
        };
        if count >= length {
            return Ok(());
        }
        let view = PyMemoryView::from(&rest)?;
        let after = PySlice::new(py, count as isize, length as isize, 1);
        rest = view.get_item(after)?;
    }
}

fn wait(protocol: &Bound<'_, PyAny>, rest: &Bound<'_, PyAny>, length: usize) -> PyResult<()> {
    let py = protocol.py();
    let backlog = protocol.getattr(intern!(py, "_write_backlog"))?;
    call1(&backlog, intern!(py, "append"), rest)?;
    let size = intern!(py, "_write_buffer_size");
    let waiting = protocol.getattr(size)?.extract::<usize>()?;
    protocol.setattr(size, waiting + length)
}

/// asyncio's `_process_outgoing`.
pub fn process_outgoing(protocol: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = protocol.py();
    let outgoing = protocol.getattr(intern!(py, "_outgoing"))?;
    let mut waiting = pending(&outgoing)?;
    if waiting > 0 && !flag(protocol, intern!(py, "_ssl_writing_paused"))? {
        let data = call0(&outgoing, intern!(py, "read"))?;
        let transport = protocol.getattr(intern!(py, "_transport"))?;
        match transport.cast_exact::<StreamTransport>() {
            Ok(stream) => StreamTransport::write_data(stream, &data)?,
            Err(_) => call1(&transport, intern!(py, "write"), &data).map(drop)?,
        }
        waiting = pending(&outgoing)?;
    }
    control_writing(protocol, waiting)
}

/// asyncio's `_control_app_writing`, asked only when it has something to do.
fn control_writing(protocol: &Bound<'_, PyAny>, encrypted: usize) -> PyResult<()> {
    let py = protocol.py();
    let plain = protocol.getattr(intern!(py, "_write_buffer_size"))?;
    let high = protocol.getattr(intern!(py, "_outgoing_high_water"))?;
    let above = encrypted + plain.extract::<usize>()? >= high.extract::<usize>()?;
    if above || flag(protocol, intern!(py, "_app_writing_paused"))? {
        call0(protocol, intern!(py, "_control_app_writing"))?;
    }
    Ok(())
}
