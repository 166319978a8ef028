//! The write end of a pipe: `_native.WritePipeTransport`, asyncio's `_UnixWritePipeTransport`.
//!
//! Nothing can be read from it, but it is watched for reading: this reports that its peer has
//! closed, even while there is nothing to write.

use std::os::fd::RawFd;

use event_loop::Direction;
use pyo3::exceptions::{PyAssertionError, PyBrokenPipeError, PyNotImplementedError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView};
use rustix::fs::FileType;

use super::pipe::PipeTransport;
use crate::asyncio::loop_class::class::Loop;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::errors::os_error;
use crate::io::stream::write_queue::WriteQueue;
use crate::io::stream::writing::COMPLAIN_AFTER;
use crate::io::stream::written::as_bytes;
use crate::io::sys::pipe_calls;
use crate::io::sys::socket_calls::Stop;
use crate::io::transports::base::Transport;
use crate::io::transports::kind::TransportKind;

const WRITE_ERROR: &str = "Fatal write error on pipe transport";

#[pyclass(extends = PipeTransport, frozen, module = "erlang_loop._native")]
pub struct WritePipeTransport {
    queue: GilCell<WriteQueue>,
    /// A pipe or a socket, whose other end can be closed; not a character device.
    has_peer: bool,
    /// The number of writes that failed or came too late.
    dropped: GilCell<u32>,
}

impl WritePipeTransport {
    pub fn has_output(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(slf.get().queue.with(slf.py(), |queue| !queue.is_empty()))
    }

    pub fn discard_output(slf: &Bound<'_, Self>) -> PyResult<()> {
        drop(slf.get().queue.with(slf.py(), |queue| queue.clear()));
        Ok(())
    }

    pub fn watches_peer(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(slf.get().has_peer && slf.as_super().as_super().get().lost.get(slf.py()) == 0)
    }

    pub fn peer_closed(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super().as_super();
        Transport::log(base, "info", "%r was closed by peer")?;
        let error = match Self::has_output(slf)? {
            true => PyBrokenPipeError::new_err(()).into_value(py).into_any(),
            false => py.None(),
        };
        Transport::end_now(base, error)
    }

    /// What the pipe does not accept at once waits until it is writable.
    fn write_now(slf: &Bound<'_, Self>, bytes: Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super().as_super();
        let queue = &slf.get().queue;
        let mut written = 0;
        if !Self::has_output(slf)? {
            written = match pipe_calls::write(base.get().live_fd(py), bytes.as_bytes()) {
                Ok(written) if written == bytes.as_bytes().len() => return Ok(()),
                Ok(written) => written,
                Err(Stop::WouldBlock) => 0,
                Err(Stop::Failed(code)) => return Self::write_failed(slf, code),
            };
            Transport::watch(base, Direction::Write)?;
        }
        let waiting = queue.with(py, |queue| {
            queue.push(py, bytes.unbind(), written);
            queue.len()
        });
        Transport::pause_above(base, waiting)
    }

    fn write_failed(slf: &Bound<'_, Self>, code: i32) -> PyResult<()> {
        slf.get().dropped.with(slf.py(), |dropped| *dropped += 1);
        Transport::fatal(slf.as_super().as_super(), os_error(code), WRITE_ERROR)
    }

    /// The pipe is writable. Unlike a socket, it resumes its protocol only when everything is
    /// written.
    pub fn write_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super().as_super();
        let fd = base.get().live_fd(py);
        // Dropped after the queue is consistent again.
        let mut gone = Vec::new();
        let queue = &slf.get().queue;
        match queue.with(py, |queue| {
            queue.send(py, fd, pipe_calls::write_pieces, &mut gone)
        }) {
            Ok(()) => {}
            Err(Stop::WouldBlock) => return Ok(()),
            Err(Stop::Failed(code)) => return Self::write_failed(slf, code),
        }
        Transport::unwatch(base, Direction::Write)?;
        // The protocol may write more at once, or abort.
        Transport::resume_below(base, 0)?;
        if base.get().closing.get(py) && base.get().lost.get(py) == 0 {
            Transport::unwatch(base, Direction::Read)?;
            base.get().lost.set(py, 1);
            let name = intern!(py, "_call_connection_lost");
            return slf.call_method1(name, (py.None(),)).map(drop);
        }
        Ok(())
    }

    /// A write after the end is dropped, as in asyncio; repeated ones are reported.
    #[cold]
    fn drop_write(&self, py: Python<'_>) -> PyResult<()> {
        let dropped = self.dropped.get(py);
        self.dropped.set(py, dropped.saturating_add(1));
        if dropped >= COMPLAIN_AFTER {
            let logger = py.import("asyncio.log")?.getattr("logger")?;
            let text = "pipe closed by peer or os.write(pipe, data) raised exception.";
            logger.call_method1("warning", (text,))?;
        }
        Ok(())
    }
}

#[pymethods]
impl WritePipeTransport {
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
        let has_peer = match pipe_calls::file_type(fd).map_err(os_error)? {
            FileType::Fifo | FileType::Socket => true,
            FileType::CharacterDevice => false,
            _ => {
                let text = "Pipe transport is only for pipes, sockets and character devices";
                return Err(PyValueError::new_err(text));
            }
        };
        pipe_calls::set_nonblocking(fd).map_err(os_error)?;
        let base = Transport::build(
            TransportKind::WritePipe,
            r#loop,
            pipe,
            protocol,
            extra,
            None,
        )?;
        let transport = WritePipeTransport {
            queue: GilCell::default(),
            has_peer,
            dropped: GilCell::default(),
        };
        let transport = PyClassInitializer::from(base)
            .add_subclass(PipeTransport)
            .add_subclass(transport);
        let transport = Bound::new(pipe.py(), transport)?;
        Transport::begin(transport.as_super().as_super(), waiter)?;
        Ok(transport)
    }

    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        if !is_bytes_like(data) {
            return Err(PyAssertionError::new_err(data.repr()?.unbind()));
        }
        let bytes = as_bytes(data)?;
        if bytes.as_bytes().is_empty() {
            return Ok(());
        }
        match slf.as_super().as_super().get().closing.get(py) {
            true => slf.get().drop_write(py),
            false => Self::write_now(slf, bytes),
        }
    }

    fn writelines(slf: &Bound<'_, Self>, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let data = PyBytes::new(py, b"").call_method1("join", (list_of_data,))?;
        Self::write(slf, &data)
    }

    fn write_eof(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::end(slf.as_super().as_super())
    }

    fn can_write_eof(&self) -> bool {
        true
    }

    fn get_write_buffer_size(&self, py: Python<'_>) -> usize {
        self.queue.with(py, |queue| queue.len())
    }

    fn get_write_buffer_limits(slf: &Bound<'_, Self>) -> (usize, usize) {
        slf.as_super().as_super().get().write_limits(slf.py())
    }

    #[pyo3(signature = (high=None, low=None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<&Bound<'_, PyAny>>,
        low: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let size = slf.get().get_write_buffer_size(slf.py());
        Transport::set_write_limits(slf.as_super().as_super(), high, low, size)
    }

    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::end_now(slf.as_super().as_super(), slf.py().None())
    }

    // asyncio's flow control makes it look like a transport of both directions, which it is not.

    fn is_reading(&self) -> PyResult<bool> {
        Err(PyNotImplementedError::new_err(()))
    }

    fn pause_reading(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err(()))
    }

    fn resume_reading(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err(()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.queue.try_visit(|queue| queue.traverse(visit))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.queue.with(py, |queue| queue.clear()));
    }

    #[getter(_conn_lost)]
    fn dropped_attribute(&self, py: Python<'_>) -> u32 {
        self.dropped.get(py)
    }
}

fn is_bytes_like(data: &Bound<'_, PyAny>) -> bool {
    data.is_instance_of::<PyBytes>()
        || data.is_instance_of::<PyByteArray>()
        || data.is_instance_of::<PyMemoryView>()
}
