//! From the application to the socket: encrypt what it writes, and send that at once.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PySlice};

use super::attributes::{object, TlsPath};
use super::states::{failed, is_in, pending, states, wants_more};
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
    Ok(is_in(protocol, &states(py)?.wrapped)
        && !object(py, &protocol.get().backlog)?.is_truthy()?)
}

/// A record after the other; what OpenSSL does not take now waits in asyncio's backlog.
fn encrypt(protocol: &Bound<'_, TlsPath>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = protocol.py();
    let tls = object(py, &protocol.get().tls)?;
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

fn wait(protocol: &Bound<'_, TlsPath>, rest: &Bound<'_, PyAny>, length: usize) -> PyResult<()> {
    let py = protocol.py();
    let this = protocol.get();
    call1(&object(py, &this.backlog)?, intern!(py, "append"), rest)?;
    this.waiting.set(py, this.waiting.get(py) + length);
    Ok(())
}

/// asyncio's `_process_outgoing`.
pub fn process_outgoing(protocol: &Bound<'_, TlsPath>) -> PyResult<()> {
    let py = protocol.py();
    let this = protocol.get();
    let outgoing = object(py, &this.outgoing)?;
    let mut encrypted = pending(&outgoing)?;
    if encrypted > 0 && !this.sending_paused.get(py) {
        let data = call0(&outgoing, intern!(py, "read"))?;
        let transport = object(py, &this.transport)?;
        match transport.cast_exact::<StreamTransport>() {
            Ok(stream) => StreamTransport::write_data(stream, &data)?,
            Err(_) => call1(&transport, intern!(py, "write"), &data).map(drop)?,
        }
        encrypted = pending(&outgoing)?;
    }
    control_writing(protocol, encrypted)
}

/// asyncio's `_control_app_writing`, asked only when it has something to do.
fn control_writing(protocol: &Bound<'_, TlsPath>, encrypted: usize) -> PyResult<()> {
    let py = protocol.py();
    let this = protocol.get();
    let above = encrypted + this.waiting.get(py) >= this.most_outgoing.get(py);
    if above || this.writing_paused.get(py) {
        call0(protocol.as_any(), intern!(py, "_control_app_writing"))?;
    }
    Ok(())
}
