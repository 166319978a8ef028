//! From the socket to the application: decrypts everything that has arrived, and passes it on at
//! once.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::TlsPath;
use super::states::{failed, is_in, is_set, pending, size, states, wants_more};
use super::writing::process_outgoing;
use crate::cpython::method_calls::{call0, call1};

/// The maximum content of a record, and so of one read from OpenSSL.
const RECORD: usize = 16 * 1024;

/// Handles bytes from the transport: what asyncio's `buffer_updated` does.
pub fn received(protocol: &Bound<'_, PyAny>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
    let py = protocol.py();
    let protocol = protocol.cast::<TlsPath>()?;
    let incoming = protocol.getattr(intern!(py, "_incoming"))?;
    call1(&incoming, intern!(py, "write"), data.as_any())?;
    let all = states(py)?;
    let next = if is_in(protocol, &all.wrapped)? {
        return do_read(protocol);
    } else if is_in(protocol, &all.do_handshake)? {
        intern!(py, "_do_handshake")
    } else if is_in(protocol, &all.flushing)? {
        intern!(py, "_do_flush")
    } else if is_in(protocol, &all.shutdown)? {
        intern!(py, "_do_shutdown")
    } else {
        return Ok(());
    };
    call0(protocol.as_any(), next).map(drop)
}

/// asyncio's `_do_read`.
pub fn do_read(protocol: &Bound<'_, TlsPath>) -> PyResult<()> {
    let all = states(protocol.py())?;
    if !is_in(protocol, &all.wrapped)? && !is_in(protocol, &all.flushing)? {
        return Ok(());
    }
    read_and_respond(protocol).or_else(|error| failed(protocol, error))
}

fn read_and_respond(protocol: &Bound<'_, TlsPath>) -> PyResult<()> {
    let py = protocol.py();
    if !is_set(protocol, intern!(py, "_app_reading_paused"))? {
        match is_set(protocol, intern!(py, "_app_protocol_is_buffer"))? {
            true => call0(protocol.as_any(), intern!(py, "_do_read__buffered")).map(drop)?,
            false => read_copied(protocol)?,
        }
        match protocol
            .getattr(intern!(py, "_write_backlog"))?
            .is_truthy()?
        {
            true => call0(protocol.as_any(), intern!(py, "_do_write")).map(drop)?,
            false => process_outgoing(protocol)?,
        }
    }
    control_reading(protocol)
}

/// asyncio's `_do_read__copied`. OpenSSL is not called when it has nothing: that would raise an
/// exception for every message.
fn read_copied(protocol: &Bound<'_, TlsPath>) -> PyResult<()> {
    let py = protocol.py();
    let incoming = protocol.getattr(intern!(py, "_incoming"))?;
    let tls = protocol.getattr(intern!(py, "_tls"))?;
    let mut chunks: Vec<Bound<'_, PyBytes>> = Vec::new();
    let mut closed = false;
    while let Some(size) = readable(&incoming, &tls)? {
        match read(&tls, size) {
            Ok(chunk) if chunk.as_bytes().is_empty() => {
                // close_notify
                closed = true;
                break;
            }
            Ok(chunk) => chunks.push(chunk),
            Err(error) if wants_more(py, &error)? => break,
            Err(error) => return Err(error),
        }
    }
    if let Some(data) = joined(py, chunks)? {
        let application = protocol.getattr(intern!(py, "_app_protocol"))?;
        call1(&application, intern!(py, "data_received"), data.as_any())?;
    }
    if closed {
        call0(protocol.as_any(), intern!(py, "_call_eof_received"))?;
        call0(protocol.as_any(), intern!(py, "_start_shutdown"))?;
    }
    Ok(())
}

/// How much to request; `None`: there is nothing. Plain text is never longer than its record, so
/// this requests what is needed, and no large object is created to be shrunk.
fn readable(incoming: &Bound<'_, PyAny>, tls: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let mut size = pending(incoming)?;
    if size == 0 {
        // The rest of a record that has been decrypted already.
        size = call0(tls, intern!(tls.py(), "pending"))?.extract()?;
    }
    Ok((size > 0).then(|| size.min(RECORD)))
}

fn read<'py>(tls: &Bound<'py, PyAny>, size: usize) -> PyResult<Bound<'py, PyBytes>> {
    let py = tls.py();
    let size = size.into_pyobject(py)?;
    let chunk = call1(tls, intern!(py, "read"), size.as_any())?;
    Ok(chunk.cast_into::<PyBytes>()?)
}

fn joined<'py>(
    py: Python<'py>,
    mut chunks: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if chunks.len() < 2 {
        return Ok(chunks.pop());
    }
    let length = chunks.iter().map(|chunk| chunk.as_bytes().len()).sum();
    PyBytes::new_with(py, length, |mut rest| {
        for chunk in &chunks {
            let (place, after) = rest.split_at_mut(chunk.as_bytes().len());
            place.copy_from_slice(chunk.as_bytes());
            rest = after;
        }
        Ok(())
    })
    .map(Some)
}

/// asyncio's `_control_ssl_reading`, called only when it has something to do.
fn control_reading(protocol: &Bound<'_, TlsPath>) -> PyResult<()> {
    let py = protocol.py();
    let above = pending(&protocol.getattr(intern!(py, "_incoming"))?)?
        >= size(protocol, intern!(py, "_incoming_high_water"))?;
    if above || is_set(protocol, intern!(py, "_ssl_reading_paused"))? {
        call0(protocol.as_any(), intern!(py, "_control_ssl_reading"))?;
    }
    Ok(())
}
