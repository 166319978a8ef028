//! Reading: one `recv` for one readiness, into memory that is reused, and a `bytes` of the exact
//! size. (asyncio reads into a new 256 KiB object each time, which glibc may map and unmap.)
#![allow(unsafe_code)]

use event_loop::Direction;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::base::Transport;
use super::protocol::{call0, call1};
use super::reading_way::Way;
use super::socket_calls::{self, Stop};
use super::stream::StreamTransport;
use super::stream_reader;
use crate::python::fd_callbacks::os_error;
use crate::python::read_buffer::READ_SIZE;
use crate::python::tls;

const READ_ERROR: &str = "Fatal read error on socket transport";

/// Records are copied once more on their way, in pieces that glibc does not map and unmap.
const TLS_READ_SIZE: usize = 64 * 1024;

impl StreamTransport {
    pub(super) fn read_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super();
        let Some(protocol) = base.get().protocol.cloned(py) else {
            return Ok(());
        };
        let protocol = protocol.into_bound(py);
        match base.get().way.get(py) {
            Way::Data => Self::read_data(base, &protocol, READ_SIZE, data_received),
            Way::StreamReader => Self::read_data(base, &protocol, READ_SIZE, stream_reader::feed),
            Way::Tls => Self::read_data(base, &protocol, TLS_READ_SIZE, tls::received),
            Way::Buffer => Self::read_into_protocol(base, &protocol),
        }
    }

    fn read_data(
        base: &Bound<'_, Transport>,
        protocol: &Bound<'_, PyAny>,
        most: usize,
        give: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyBytes>) -> PyResult<()>,
    ) -> PyResult<()> {
        let py = base.py();
        let fd = base.get().live_fd(py);
        let owner = base.get().owner(py)?;
        let received = owner.get().read_buffer.with(py, |buffer| {
            let buffer = buffer.get(most);
            let count = socket_calls::recv(fd, buffer)?;
            Ok(PyBytes::new(py, &buffer[..count]))
        });
        match received {
            Ok(data) if data.as_bytes().is_empty() => Self::read_eof(base, protocol),
            Ok(data) => give(protocol, &data).or_else(|error| failed(base, error, "data_received")),
            Err(Stop::WouldBlock) => Ok(()),
            Err(Stop::Failed(code)) => Transport::fatal(base, os_error(code), READ_ERROR),
        }
    }

    fn read_into_protocol(
        base: &Bound<'_, Transport>,
        protocol: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = base.py();
        let any_size = (-1i32).into_pyobject(py)?.into_any();
        let buffer = call1(protocol, intern!(py, "get_buffer"), &any_size)
            .and_then(|object| writable(&object));
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(error) => return failed(base, error, "get_buffer"),
        };
        let fd = base.get().live_fd(py);
        // SAFETY: the export keeps the memory in place and writable until `buffer` is dropped.
        let received =
            unsafe { socket_calls::recv_into(fd, buffer.buf_ptr().cast(), buffer.len_bytes()) };
        // Given back first: `buffer_updated` may want to resize it.
        drop(buffer);
        match received {
            Ok(0) => Self::read_eof(base, protocol),
            Ok(count) => {
                let count = count.into_pyobject(py)?.into_any();
                call1(protocol, intern!(py, "buffer_updated"), &count)
                    .map(drop)
                    .or_else(|error| failed(base, error, "buffer_updated"))
            }
            Err(Stop::WouldBlock) => Ok(()),
            Err(Stop::Failed(code)) => Transport::fatal(base, os_error(code), READ_ERROR),
        }
    }

    fn read_eof(base: &Bound<'_, Transport>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = base.py();
        Transport::log_debug(base, "%r received EOF")?;
        let keep_open =
            call0(protocol, intern!(py, "eof_received")).and_then(|answer| answer.is_truthy());
        match keep_open {
            // It may still write; there is nothing more to read.
            Ok(true) => Transport::unwatch(base, Direction::Read),
            Ok(false) => base.call_method0(intern!(py, "close")).map(drop),
            Err(error) => failed(base, error, "eof_received"),
        }
    }
}

fn data_received(protocol: &Bound<'_, PyAny>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
    let name = intern!(protocol.py(), "data_received");
    call1(protocol, name, data.as_any()).map(drop)
}

/// A protocol that fails loses its connection; the loop goes on.
fn failed(base: &Bound<'_, Transport>, error: PyErr, method: &str) -> PyResult<()> {
    let text = format!("Fatal error: protocol.{method}() call failed.");
    Transport::fatal(base, error, &text)
}

fn writable(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    if object.len()? == 0 {
        return Err(PyRuntimeError::new_err(
            "get_buffer() returned an empty buffer",
        ));
    }
    let buffer = PyBuffer::<u8>::get(object)?;
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(
            "get_buffer() must return a writable, contiguous buffer",
        ));
    }
    Ok(buffer)
}
