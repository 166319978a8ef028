//! The read end of a pipe: `_native.ReadPipeTransport`, asyncio's `_UnixReadPipeTransport`.

use std::os::fd::RawFd;

use event_loop::Direction;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::types::PyDict;
use rustix::fs::FileType;

use super::pipe::PipeTransport;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::read_buffer::READ_SIZE;
use crate::cpython::arguments::Arguments;
use crate::cpython::errors::os_error;
use crate::cpython::method_calls::call1;
use crate::io::sys::pipe_calls;
use crate::io::sys::socket_calls::Stop;
use crate::io::transports::base::Transport;
use crate::io::transports::kind::TransportKind;

const READ_ERROR: &str = "Fatal read error on pipe transport";

#[pyclass(extends = PipeTransport, frozen, module = "erlang_loop._native")]
pub struct ReadPipeTransport;

impl ReadPipeTransport {
    /// An error of the protocol is reported, but does not end the transport: as in asyncio, and
    /// unlike sockets.
    pub fn read_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super().as_super();
        let Some(protocol) = base.get().protocol.cloned(py) else {
            return Ok(());
        };
        let protocol = protocol.bind(py);
        let fd = base.get().live_fd(py);
        let owner = base.get().owner(py)?;
        let received = owner.get().files.read_buffer.with(py, |buffer| {
            let buffer = buffer.get(READ_SIZE);
            let count = pipe_calls::read(fd, buffer)?;
            Ok(PyBytes::new(py, &buffer[..count]))
        });
        match received {
            Ok(message) => Self::deliver(slf, protocol, &message),
            Err(Stop::WouldBlock) => Ok(()),
            Err(Stop::Failed(code)) => Transport::fatal(base, os_error(code), READ_ERROR),
        }
    }

    fn deliver(
        slf: &Bound<'_, Self>,
        protocol: &Bound<'_, PyAny>,
        message: &Bound<'_, PyBytes>,
    ) -> PyResult<()> {
        if message.as_bytes().is_empty() {
            return Self::read_eof(slf, protocol);
        }
        let name = intern!(slf.py(), "data_received");
        call1(protocol, name, message.as_any()).map(drop)
    }

    fn read_eof(slf: &Bound<'_, Self>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super().as_super();
        Transport::log(base, "info", "%r was closed by peer")?;
        base.get().closing.set(py, true);
        Transport::unwatch(base, Direction::Read)?;
        let eof = protocol.getattr(intern!(py, "eof_received"))?;
        Loop::enqueue(&base.get().owner(py)?, eof, Arguments::NONE, None)?;
        Transport::schedule_lost(base, py.None())
    }
}

#[pymethods]
impl ReadPipeTransport {
    #[new]
    #[pyo3(signature = (r#loop, pipe, protocol, waiter=None, extra=None))]
    fn new<'py>(
        r#loop: &Bound<'py, Loop>,
        pipe: &Bound<'py, PyAny>,
        protocol: &Bound<'py, PyAny>,
        waiter: Option<&Bound<'py, PyAny>>,
        extra: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, Self>> {
        let fd: RawFd = pipe.call_method0(intern!(pipe.py(), "fileno"))?.extract()?;
        let file_type = pipe_calls::file_type(fd).map_err(os_error)?;
        if !matches!(
            file_type,
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice
        ) {
            let text = "Pipe transport is for pipes/sockets only.";
            return Err(PyValueError::new_err(text));
        }
        pipe_calls::set_nonblocking(fd).map_err(os_error)?;
        let base = Transport::build(TransportKind::ReadPipe, r#loop, pipe, protocol, extra, None)?;
        let transport = PyClassInitializer::from(base)
            .add_subclass(PipeTransport)
            .add_subclass(ReadPipeTransport);
        let transport = Bound::new(pipe.py(), transport)?;
        Transport::begin(transport.as_super().as_super(), waiter)?;
        Ok(transport)
    }

    fn is_reading(slf: &Bound<'_, Self>) -> bool {
        slf.as_super().as_super().get().reads(slf.py())
    }

    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::pause_reading(slf.as_super().as_super())
    }

    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::resume_reading(slf.as_super().as_super())
    }
}
