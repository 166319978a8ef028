//! `_native.SockOperation`: a call on a socket that is repeated whenever the socket is ready, and
//! whose result goes into a future. `loop.sock_recv` and similar methods await it
//! (`python/erlang_loop/loop/io/socket_methods.py`).

use std::os::fd::RawFd;

use event_loop::{Direction, Mode};
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice, PyString, PyTuple};

use super::sys::socket_calls;
use crate::asyncio::handles::io_object::{IoClass, IoObject};
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::fd_callbacks::watch_error;
use crate::asyncio::loop_class::futures;
use crate::asyncio::loop_class::read_buffer::READ_SIZE;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::errors::os_error;
use crate::cpython::method_calls::is_fatal;
use crate::io::sys::socket_calls::Stop;
use crate::io::transports::open_file::FileObject;

#[pyclass(frozen, module = "erlang_loop._native")]
pub struct SockOperation {
    owner: Py<Loop>,
    fd: RawFd,
    direction: Direction,
    future: Py<PyAny>,
    socket: Py<PyAny>,
    what: SockCall,
    watching: GilCell<bool>,
}

enum SockCall {
    /// The method is looked up for every attempt, as asyncio does.
    Call(Py<PyString>, Py<PyTuple>),
    /// `send`: a view of all the data, its length, and how many bytes have been sent.
    SendAll(Py<PyAny>, usize, GilCell<usize>),
    /// `recv` of a plain socket, at most this many bytes, without Python's method.
    Recv(FileObject, usize),
}

impl SockCall {
    /// Most operations end with the first attempt after an event. The kernel has disabled the
    /// descriptor by then, and no call is needed to remove it (`Watches::unwatch_fd`).
    fn mode(&self) -> Mode {
        match self {
            SockCall::SendAll(..) => Mode::LEVEL,
            SockCall::Call(..) | SockCall::Recv(..) => Mode::ONESHOT,
        }
    }

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            SockCall::Call(method, arguments) => {
                visit.call(method)?;
                visit.call(arguments)
            }
            SockCall::SendAll(view, ..) => visit.call(view),
            SockCall::Recv(file, _) => file.traverse(visit),
        }
    }
}

impl SockOperation {
    fn start(
        owner: &Bound<'_, Loop>,
        socket: &Bound<'_, PyAny>,
        fd: RawFd,
        direction: Direction,
        what: SockCall,
    ) -> PyResult<Py<Self>> {
        let py = owner.py();
        let future = futures::create_future(owner)?;
        let operation = Bound::new(
            py,
            SockOperation {
                owner: owner.clone().unbind(),
                fd,
                direction,
                future: future.unbind(),
                socket: socket.clone().unbind(),
                what,
                watching: GilCell::new(true),
            },
        )?;
        operation.get().watch(py)?;
        let watcher = IoObject::new(&operation);
        Loop::set_watcher(owner, fd, direction, watcher.into())?;
        Ok(operation.unbind())
    }

    fn watch(&self, py: Python<'_>) -> PyResult<()> {
        let native = self.owner.get().native(py)?;
        let watched = native
            .core
            .watch(self.fd, self.direction, 0, self.what.mode());
        watched.map(drop).map_err(watch_error)
    }

    /// Watches again after an event.
    fn watch_on(&self, py: Python<'_>) -> PyResult<()> {
        match self.what.mode() {
            Mode::ONESHOT => self.watch(py),
            _ => Ok(()),
        }
    }

    fn fail(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        if is_fatal(py, &error) {
            // The operation may be repeated after the loop has ended, if that is possible.
            if let Err(other) = self.watch_on(py) {
                other.write_unraisable(py, None);
            }
            return Err(error);
        }
        self.finish(py);
        let value = error.into_value(py);
        let set = intern!(py, "set_exception");
        self.future.bind(py).call_method1(set, (value,)).map(drop)
    }

    /// `None`: the socket is not ready yet.
    fn attempt<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let socket = self.socket.bind(py);
        match &self.what {
            SockCall::Call(method, arguments) => {
                unless_blocked(py, socket.call_method1(method.bind(py), arguments.bind(py)))
            }
            SockCall::SendAll(view, length, sent) => {
                let rest = PySlice::new(py, sent.get(py) as isize, *length as isize, 1);
                let piece = view.bind(py).get_item(rest)?;
                let result = socket.call_method1(intern!(py, "send"), (piece,));
                let Some(count) = unless_blocked(py, result)? else {
                    return Ok(None);
                };
                let sent_now = sent.get(py) + count.extract::<usize>()?;
                sent.set(py, sent_now);
                Ok((sent_now >= *length).then(|| py.None().into_bound(py)))
            }
            SockCall::Recv(file, most) => receive(self.owner.bind(py), file.fd(py), *most),
        }
    }
}

impl IoClass for SockOperation {
    fn ready(
        slf: &Bound<'_, Self>,
        _event_loop: &Bound<'_, Loop>,
        _direction: Direction,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.watching.get(py) {
            return Ok(());
        }
        let future = this.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            // It was cancelled; the task that awaited it has not run yet.
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
            Ok(None) => this.watch_on(py).or_else(|error| this.fail(py, error)),
            Err(error) => this.fail(py, error),
        }
    }

    /// This operation must not end the watch of the other one.
    fn replaced(slf: &Bound<'_, Self>) {
        slf.get().watching.set(slf.py(), false);
    }
}

fn unless_blocked<'py>(
    py: Python<'py>,
    result: PyResult<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if error.is_instance_of::<PyBlockingIOError>(py)
                || error.is_instance_of::<PyInterruptedError>(py) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// `recv` into the loop's own memory; `None`: the socket is not ready yet.
fn receive<'py>(
    owner: &Bound<'py, Loop>,
    fd: RawFd,
    most: usize,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = owner.py();
    let received = owner.get().files.read_buffer.with(py, |buffer| {
        let buffer = &mut buffer.get(READ_SIZE)[..most.min(READ_SIZE)];
        let count = socket_calls::recv_nowait(fd, buffer)?;
        Ok(PyBytes::new(py, &buffer[..count]))
    });
    match received {
        Ok(data) => Ok(Some(data.into_any())),
        Err(Stop::WouldBlock) => Ok(None),
        Err(Stop::Failed(code)) => Err(os_error(code)),
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
        let what = SockCall::Call(method.clone().unbind(), arguments.unbind());
        Self::start(r#loop, sock, fd, direction, what)
    }

    /// Calls `sock.send` with the rest of `view` until all is sent; `sent` bytes have been sent
    /// already.
    #[staticmethod]
    fn send_all(
        r#loop: &Bound<'_, Loop>,
        sock: &Bound<'_, PyAny>,
        fd: RawFd,
        view: &Bound<'_, PyAny>,
        sent: usize,
    ) -> PyResult<Py<Self>> {
        let what = SockCall::SendAll(view.clone().unbind(), view.len()?, GilCell::new(sent));
        Self::start(r#loop, sock, fd, Direction::Write, what)
    }

    /// How many bytes [`recv`](Self::recv) can receive: the rest of a larger packet would be lost.
    #[classattr]
    const MOST: usize = READ_SIZE;

    /// Receives up to `most` bytes from a plain socket, or returns an operation to wait for.
    #[staticmethod]
    fn recv(r#loop: &Bound<'_, Loop>, sock: &Bound<'_, PyAny>, most: usize) -> PyResult<Py<PyAny>> {
        let py = r#loop.py();
        let file = FileObject::new(sock)?;
        let fd = file.fd(py);
        if let Some(data) = receive(r#loop, fd, most)? {
            return Ok(data.unbind());
        }
        if r#loop.get().transport_of(py, fd).is_some() {
            r#loop.call_method1(intern!(py, "_ensure_fd_no_transport"), (fd,))?;
        }
        let what = SockCall::Recv(file, most);
        let operation = Self::start(r#loop, sock, fd, Direction::Read, what)?;
        Ok(operation.into_any())
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
        self.what.traverse(visit)
    }
}
