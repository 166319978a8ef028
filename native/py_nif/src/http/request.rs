//! One request with its response: `_native.HttpRequest`. Its methods `receive` and `send` are what
//! the application gets; they are in [`super::receiving`] and [`super::sending`].

use std::collections::VecDeque;
use std::ffi::CStr;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::connection::HttpConnection;
use super::response::Response;
use super::server::HttpServer;
use super::{receiving, sending};
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::fast_method::{CallArguments, FastMethod, FastMethod0, install, install0};
use crate::cpython::method_calls::complete;

#[pyclass(frozen, weakref, module = "erlang_loop._native")]
pub struct HttpRequest {
    pub server: Py<HttpServer>,
    /// Until the response is complete.
    pub connection: GilSlot<Option<Py<HttpConnection>>>,
    /// For the access log.
    pub scope: GilSlot<Option<Py<PyDict>>>,
    pub began: u64,
    pub task: GilSlot<Option<Py<PyAny>>>,
    pub ended: GilSlot<bool>,
    pub is_head: bool,
    pub version: u8,
    pub keep_alive: GilSlot<bool>,
    /// The client waits for `100 Continue`.
    pub expects_continue: GilSlot<bool>,
    pub disconnected: GilSlot<bool>,
    pub body: GilCell<RequestBody>,
    pub response: GilCell<Response>,
}

/// What has arrived of the body and was not received by the application.
#[derive(Default)]
pub struct RequestBody {
    pub pieces: VecDeque<Py<PyBytes>>,
    pub size: usize,
    /// Nothing more arrives.
    pub ended: bool,
    /// The application has received the end.
    pub end_received: bool,
    /// Futures of the application, which waits for a message.
    pub waiters: Vec<Py<PyAny>>,
}

impl RequestBody {
    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.pieces.iter().try_for_each(|piece| visit.call(piece))?;
        self.waiters
            .iter()
            .try_for_each(|future| visit.call(future))
    }
}

impl HttpRequest {
    /// Wakes the application.
    pub fn wake(&self, py: Python<'_>) -> PyResult<()> {
        let waiters = self.body.with(py, |body| std::mem::take(&mut body.waiters));
        waiters
            .iter()
            .try_for_each(|future| complete(future.bind(py)))
    }

    /// A piece of the body arrived.
    pub fn arrived(&self, py: Python<'_>, piece: Py<PyBytes>) -> PyResult<usize> {
        self.expects_continue.set(py, false);
        let size = self.body.with(py, |body| {
            body.size += piece.as_bytes(py).len();
            body.pieces.push_back(piece);
            body.size
        });
        self.wake(py)?;
        Ok(size)
    }

    /// All of the body arrived.
    pub fn body_ended(&self, py: Python<'_>) -> PyResult<()> {
        self.body.with(py, |body| body.ended = true);
        self.wake(py)
    }

    /// The client has gone.
    pub fn lost(&self, py: Python<'_>) -> PyResult<()> {
        self.disconnected.set(py, true);
        self.wake(py)
    }
}

#[pymethods]
impl HttpRequest {
    /// Whether the client has gone.
    #[getter]
    fn disconnected(&self, py: Python<'_>) -> bool {
        self.disconnected.get(py)
    }

    /// Completes a response whose body was sent past it.
    fn _sent_file(slf: &Bound<'_, Self>) -> PyResult<()> {
        sending::sent_file(slf)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.server)?;
        self.connection.visit(|one| visit.call(one))?;
        self.scope.visit(|one| visit.call(one))?;
        self.task.visit(|one| visit.call(one))?;
        self.body.try_visit(|body| body.traverse(visit))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop((
            self.connection.take(py),
            self.scope.take(py),
            self.task.take(py),
            self.body.replace(py, RequestBody::default()),
        ));
    }
}

pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<HttpRequest>();
    install0::<Receive>(&class)?;
    install::<Send>(&class)?;
    install0::<End>(&class)
}

struct Receive;

impl FastMethod0 for Receive {
    type Class = HttpRequest;
    const NAME: &'static CStr = c"receive";
    const DOC: &'static CStr = c"receive($self)\n--\n\nThe next message, as an awaitable.";

    fn call<'py>(slf: &Bound<'py, HttpRequest>) -> PyResult<Bound<'py, PyAny>> {
        receiving::receive(slf)
    }
}

struct Send;

impl FastMethod for Send {
    type Class = HttpRequest;
    const NAME: &'static CStr = c"send";
    const DOC: &'static CStr = c"send($self, message)\n--\n\nSends a message of the application.";

    fn call<'py>(
        slf: &Bound<'py, HttpRequest>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [message] = arguments.exactly("send", ["message"])?;
        sending::send(slf, &message)
    }
}

struct End;

impl FastMethod0 for End {
    type Class = HttpRequest;
    const NAME: &'static CStr = c"end";
    const DOC: &'static CStr =
        c"end($self)\n--\n\nThe application has returned or raised. Returns what is missing.";

    fn call<'py>(slf: &Bound<'py, HttpRequest>) -> PyResult<Bound<'py, PyAny>> {
        let missing = sending::end(slf)?;
        Ok(missing.into_pyobject(slf.py())?.into_any())
    }
}
