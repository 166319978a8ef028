//! `_native.SockOperation`: a call on a socket that is tried again whenever the socket is ready,
//! and whose result goes into a future. `loop.sock_recv` and its like await it
//! (`python/erlang_loop/socket_methods.py`).

use std::os::fd::RawFd;

use event_loop::Direction;
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyString, PyTuple};

use super::fd_callbacks::{watch_error, Watcher, MODE};
use super::gil_cell::GilCell;
use super::loop_class::Loop;
use super::transports::is_fatal;

#[pyclass(frozen, module = "erlang_loop._native")]
pub struct SockOperation {
    owner: Py<Loop>,
    fd: RawFd,
    direction: Direction,
    future: Py<PyAny>,
    socket: Py<PyAny>,
    /// Looked up anew for every attempt, as asyncio does.
    method: Py<PyString>,
    arguments: Py<PyTuple>,
    /// For `send`: a view of all the data, and how much of it is gone.
    rest: Option<(Py<PyAny>, usize)>,
    sent: GilCell<usize>,
    watching: GilCell<bool>,
}

impl SockOperation {
    #[allow(clippy::too_many_arguments, reason = "the two ways in name them")]
    fn start(
        owner: &Bound<'_, Loop>,
        socket: &Bound<'_, PyAny>,
        fd: RawFd,
        direction: Direction,
        method: &Bound<'_, PyString>,
        arguments: Bound<'_, PyTuple>,
        rest: Option<(Py<PyAny>, usize)>,
        sent: usize,
    ) -> PyResult<Py<Self>> {
        let py = owner.py();
        let future = owner.call_method0(intern!(py, "create_future"))?;
        let operation = Py::new(
            py,
            SockOperation {
                owner: owner.clone().unbind(),
                fd,
                direction,
                future: future.unbind(),
                socket: socket.clone().unbind(),
                method: method.clone().unbind(),
                arguments: arguments.unbind(),
                rest,
                sent: GilCell::new(sent),
                watching: GilCell::new(true),
            },
        )?;
        let native = owner.get().native(py)?;
        native
            .core
            .watch(fd, direction, 0, MODE)
            .map_err(watch_error)?;
        let watcher = Watcher::Operation(operation.clone_ref(py));
        Loop::set_watcher(owner, fd, direction, watcher)?;
        Ok(operation)
    }

    /// Another watcher took its place on the fd; this one must not end that.
    pub fn replaced(&self, py: Python<'_>) {
        self.watching.set(py, false);
    }

    /// The socket is ready: called by the turn, for a watch that may have ended since.
    pub fn ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.watching.get(py) {
            return Ok(());
        }
        let future = this.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            // Cancelled; whoever awaited it has not had its turn yet.
            this.finish(py);
            return Ok(());
        }
        match this.attempt(py) {
            Ok(Some(value)) => {
                this.finish(py);
                future
                    .call_method1(intern!(py, "set_result"), (value,))
                    .map(drop)
            }
            Ok(None) => Ok(()),
            Err(error) if is_fatal(py, &error) => Err(error),
            Err(error) => {
                this.finish(py);
                let value = error.into_value(py);
                future
                    .call_method1(intern!(py, "set_exception"), (value,))
                    .map(drop)
            }
        }
    }

    /// `None`: not yet.
    fn attempt<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let socket = self.socket.bind(py);
        let method = self.method.bind(py);
        let answer = match &self.rest {
            None => socket.call_method1(method, self.arguments.bind(py)),
            Some((view, length)) => {
                let from = self.sent.get(py) as isize;
                let piece = view
                    .bind(py)
                    .get_item(PySlice::new(py, from, *length as isize, 1))?;
                socket.call_method1(method, (piece,))
            }
        };
        match answer {
            Ok(value) => match &self.rest {
                None => Ok(Some(value)),
                Some((_, length)) => {
                    let sent = self.sent.get(py) + value.extract::<usize>()?;
                    self.sent.set(py, sent);
                    Ok((sent >= *length).then(|| py.None().into_bound(py)))
                }
            },
            Err(error)
                if error.is_instance_of::<PyBlockingIOError>(py)
                    || error.is_instance_of::<PyInterruptedError>(py) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[pymethods]
impl SockOperation {
    /// Calls `sock.method(*arguments)` when `fd` is readable (or writable).
    #[staticmethod]
    fn retry(
        r#loop: &Bound<'_, Loop>,
        sock: &Bound<'_, PyAny>,
        fd: RawFd,
        writing: bool,
        method: &Bound<'_, PyString>,
        arguments: Bound<'_, PyTuple>,
    ) -> PyResult<Py<Self>> {
        let direction = if writing {
            Direction::Write
        } else {
            Direction::Read
        };
        Self::start(r#loop, sock, fd, direction, method, arguments, None, 0)
    }

    /// Calls `sock.send` with what is left of `view` until all is sent; `sent` bytes are gone.
    #[staticmethod]
    fn send_all(
        r#loop: &Bound<'_, Loop>,
        sock: &Bound<'_, PyAny>,
        fd: RawFd,
        view: &Bound<'_, PyAny>,
        sent: usize,
    ) -> PyResult<Py<Self>> {
        let py = r#loop.py();
        let rest = Some((view.clone().unbind(), view.len()?));
        let nothing = PyTuple::empty(py);
        let send = intern!(py, "send");
        Self::start(
            r#loop,
            sock,
            fd,
            Direction::Write,
            send,
            nothing,
            rest,
            sent,
        )
    }

    #[getter]
    fn future(&self, py: Python<'_>) -> Py<PyAny> {
        self.future.clone_ref(py)
    }

    /// Ends the watch, if it has not ended yet.
    fn finish(&self, py: Python<'_>) {
        if self.watching.replace(py, false) {
            drop(self.owner.get().remove_watcher(py, self.fd, self.direction));
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.future)?;
        visit.call(&self.socket)?;
        visit.call(&self.arguments)?;
        visit.call(self.rest.as_ref().map(|(view, _)| view))
    }
}
