//! Reading: one `recv` per readiness event, into reused memory, and a `bytes` object of the exact
//! size. (asyncio reads into a new 256 KiB object each time, which glibc may map and unmap.)

use event_loop::Direction;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::large_read;
use super::large_read::LARGE;
use super::reading_way::Way;
use super::stream_reader;
use super::transport::StreamTransport;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::read_buffer::READ_SIZE;
use crate::cpython::errors::os_error;
use crate::cpython::method_calls::{call0, call1};
use crate::cpython::objects::buffers::fill_buffer;
use crate::io::sys::socket_calls;
use crate::io::sys::socket_calls::Stop;
use crate::io::tls;
use crate::io::transports::base::Transport;

const READ_ERROR: &str = "Fatal read error on socket transport";

/// Records are copied once more, in pieces that glibc does not map and unmap.
const TLS_READ_SIZE: usize = 64 * 1024;

impl StreamTransport {
    pub fn read_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super();
        let Some(protocol) = base.get().protocol.cloned(py) else {
            return Ok(());
        };
        let protocol = protocol.into_bound(py);
        match base.get().way.get(py) {
            Way::Data => Self::read_data(slf, &protocol, READ_SIZE, data_received),
            Way::StreamReader => Self::read_data(slf, &protocol, READ_SIZE, stream_reader::feed),
            Way::Tls => Self::read_data(slf, &protocol, TLS_READ_SIZE, tls::reading::received),
            Way::Buffer => Self::read_into_protocol(base, &protocol),
        }
    }

    fn read_data(
        slf: &Bound<'_, Self>,
        protocol: &Bound<'_, PyAny>,
        most: usize,
        give: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyBytes>) -> PyResult<()>,
    ) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super();
        let owner = base.get().owner(py)?;
        let received = match slf.get().large.get(py) {
            true => large_read::recv(py, base.get().live_fd(py))?,
            false => Self::receive(base, &owner, most),
        };
        let message = match received {
            Ok(message) => message,
            Err(Stop::WouldBlock) => return Ok(()),
            Err(Stop::Failed(code)) => {
                return Transport::fatal(base, os_error(code), READ_ERROR);
            }
        };
        let length = message.as_bytes().len();
        slf.get().large.set(py, length >= LARGE);
        if length == 0 {
            return Self::read_eof(base, protocol);
        }
        give(protocol, &message).or_else(|error| failed(base, error, "data_received"))
    }

    /// Receives into the loop's buffer, and copies that into an object of the right size.
    fn receive<'py>(
        base: &Bound<'py, Transport>,
        owner: &Bound<'py, Loop>,
        most: usize,
    ) -> Result<Bound<'py, PyBytes>, Stop> {
        let py = base.py();
        let fd = base.get().live_fd(py);
        owner.get().files.read_buffer.with(py, |buffer| {
            let buffer = buffer.get(most);
            let count = socket_calls::recv(fd, buffer)?;
            Ok(PyBytes::new(py, &buffer[..count]))
        })
    }

    fn read_into_protocol(
        base: &Bound<'_, Transport>,
        protocol: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = base.py();
        let any_size = (-1i32).into_pyobject(py)?.into_any();
        let buffer = call1(protocol, intern!(py, "get_buffer"), &any_size).and_then(not_empty);
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(error) => return failed(base, error, "get_buffer"),
        };
        let fd = base.get().live_fd(py);
        // The buffer is released before anything else happens: `buffer_updated` may want to resize
        // it.
        let received = fill_buffer(&buffer, |memory| {
            socket_calls::recv_into(fd, memory).map(|received| received.len())
        });
        match received {
            Ok(Ok(0)) => Self::read_eof(base, protocol),
            Ok(Ok(count)) => {
                let count = count.into_pyobject(py)?.into_any();
                call1(protocol, intern!(py, "buffer_updated"), &count)
                    .map(drop)
                    .or_else(|error| failed(base, error, "buffer_updated"))
            }
            Ok(Err(Stop::WouldBlock)) => Ok(()),
            Ok(Err(Stop::Failed(code))) => Transport::fatal(base, os_error(code), READ_ERROR),
            Err(error) => Transport::fatal(base, error, READ_ERROR),
        }
    }

    fn read_eof(base: &Bound<'_, Transport>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = base.py();
        Transport::log_debug(base, "%r received EOF")?;
        let keep_open =
            call0(protocol, intern!(py, "eof_received")).and_then(|result| result.is_truthy());
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

/// A protocol that raises an exception loses its connection; the loop continues.
fn failed(base: &Bound<'_, Transport>, error: PyErr, method: &str) -> PyResult<()> {
    let text = format!("Fatal error: protocol.{method}() call failed.");
    Transport::fatal(base, error, &text)
}

fn not_empty(buffer: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    match buffer.len()? {
        0 => Err(PyRuntimeError::new_err(
            "get_buffer() returned an empty buffer",
        )),
        _ => Ok(buffer),
    }
}
