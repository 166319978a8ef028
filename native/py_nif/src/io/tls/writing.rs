//! From the application to the socket: encrypts what it writes, and sends that at once.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PySlice};

use super::TlsPath;
use super::states::{failed, is_in, is_set, pending, size, states, wants_more};
use crate::cpython::method_calls::{call0, call1};
use crate::io::stream::transport::StreamTransport;

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
    // Before the handshake, after the end, or behind data that waits: use asyncio's own method.
    match protocol.cast::<TlsPath>() {
        Ok(protocol) if is_direct(protocol)? => encrypt(protocol, data)
            .and_then(|()| process_outgoing(protocol))
            .or_else(|error| failed(protocol, error)),
        _ => {
            let list = (data,).into_pyobject(py)?;
            call1(&protocol, intern!(py, "_write_appdata"), list.as_any()).map(drop)
        }
    }
}

fn is_direct(protocol: &Bound<'_, TlsPath>) -> PyResult<bool> {
    let py = protocol.py();
    Ok(is_in(protocol, &states(py)?.wrapped)?
        && !protocol
            .getattr(intern!(py, "_write_backlog"))?
            .is_truthy()?)
}

/// Encrypts one record after another; what OpenSSL does not accept now waits in asyncio's backlog.
fn encrypt(protocol: &Bound<'_, TlsPath>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = protocol.py();
    let tls = protocol.getattr(intern!(py, "_tls"))?;
    let write = intern!(py, "write");
    let mut rest = match data.is_instance_of::<PyMemoryView>() {
        // Counted in bytes from here on, whatever the type of its items.
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

fn wait(protocol: &Bound<'_, TlsPath>, rest: &Bound<'_, PyAny>, length: usize) -> PyResult<()> {
    let py = protocol.py();
    call1(
        &protocol.getattr(intern!(py, "_write_backlog"))?,
        intern!(py, "append"),
        rest,
    )?;
    let name = intern!(py, "_write_buffer_size");
    protocol.setattr(name, size(protocol, name)? + length)
}

/// asyncio's `_process_outgoing`.
pub fn process_outgoing(protocol: &Bound<'_, TlsPath>) -> PyResult<()> {
    let py = protocol.py();
    let outgoing = protocol.getattr(intern!(py, "_outgoing"))?;
    let mut encrypted = pending(&outgoing)?;
    if encrypted > 0 && !is_set(protocol, intern!(py, "_ssl_writing_paused"))? {
        let data = call0(&outgoing, intern!(py, "read"))?;
        let transport = protocol.getattr(intern!(py, "_transport"))?;
        match transport.cast_exact::<StreamTransport>() {
            Ok(stream) => StreamTransport::write_data(stream, &data)?,
            Err(_) => call1(&transport, intern!(py, "write"), &data).map(drop)?,
        }
        encrypted = pending(&outgoing)?;
    }
    control_writing(protocol, encrypted)
}

/// asyncio's `_control_app_writing`, called only when it has something to do.
fn control_writing(protocol: &Bound<'_, TlsPath>, encrypted: usize) -> PyResult<()> {
    let py = protocol.py();
    let above = encrypted + size(protocol, intern!(py, "_write_buffer_size"))?
        >= size(protocol, intern!(py, "_outgoing_high_water"))?;
    if above || is_set(protocol, intern!(py, "_app_writing_paused"))? {
        call0(protocol.as_any(), intern!(py, "_control_app_writing"))?;
    }
    Ok(())
}
