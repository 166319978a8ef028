//! A connected byte stream. It does what asyncio's `_SelectorSocketTransport` does, with its
//! attributes where asyncio's own code looks at them (TLS, sendfile, streams).

use std::os::fd::RawFd;

use pyo3::exceptions::{PyConnectionError, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use pyo3::{intern, PyTypeInfo};

use event_loop::Direction;

use super::flow::Limits;
use super::protocol::{call0, call1, is_fatal};
use super::socket_calls::{set_nodelay, Socket};
use super::write_queue::WriteQueue;
use crate::python::context;
use crate::python::fd_callbacks::{os_error, watch_error, Watcher, MODE};
use crate::python::gil_cell::GilCell;
use crate::python::loop_class::Loop;
use crate::python::ready::Item;

#[pyclass(frozen, dict, weakref, module = "erlang_loop._native")]
pub struct StreamTransport {
    pub(super) owner: GilCell<Option<Py<Loop>>>,
    pub(super) socket: GilCell<Option<Socket>>,
    pub(super) fd: RawFd,
    extra: Py<PyDict>,
    pub(super) protocol: GilCell<Option<Py<PyAny>>>,
    /// The protocol gives its own buffers (asyncio.BufferedProtocol).
    pub(super) buffered: GilCell<bool>,
    server: GilCell<Option<Py<PyAny>>>,
    /// In which `data_received` and its like run: that of whoever started the reading.
    read_context: GilCell<Option<Py<PyAny>>>,
    pub(super) write_context: GilCell<Option<Py<PyAny>>>,
    pub(super) queue: GilCell<WriteQueue>,
    pub(super) limits: GilCell<Limits>,
    pub(super) protocol_paused: GilCell<bool>,
    pub(super) closing: GilCell<bool>,
    /// `connection_lost` is scheduled or done; counts writes after that.
    pub(super) lost: GilCell<u32>,
    paused: GilCell<bool>,
    pub(super) eof: GilCell<bool>,
    pub(super) reading: GilCell<bool>,
    pub(super) writing: GilCell<bool>,
    /// The callback in which something was sent last; further writes in it wait for its end.
    pub(super) wrote_in: GilCell<u64>,
    pub(super) flush_pending: GilCell<bool>,
    pub(super) empty_waiter: GilCell<Option<Py<PyAny>>>,
}

impl StreamTransport {
    /// The loop; an error after the connection is lost, as touching `None` is in asyncio.
    pub(super) fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Loop>> {
        match self.owner.cloned(py) {
            Some(owner) => Ok(owner.into_bound(py)),
            None => Err(PyRuntimeError::new_err("the transport is closed")),
        }
    }

    /// The fd while the socket is open, else -1.
    pub(super) fn live_fd(&self, py: Python<'_>) -> RawFd {
        self.socket
            .with(py, |socket| socket.as_ref().map_or(-1, |socket| socket.fd(py)))
    }

    // ---- watching ----

    fn watch_read(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.closing.get(py) || this.paused.get(py) {
            return Ok(());
        }
        let owner = this.owner(py)?;
        let native = &owner.get().native;
        let fresh = context::copy_current(py)?;
        drop(this.read_context.replace(py, Some(fresh)));
        native
            .core
            .watch(this.fd, Direction::Read, 0, MODE)
            .map_err(watch_error)?;
        this.reading.set(py, true);
        let watcher = Watcher::Stream(slf.clone().unbind());
        Loop::set_watcher(&owner, this.fd, Direction::Read, watcher)
    }

    pub(super) fn unwatch_read(&self, py: Python<'_>) {
        if self.reading.replace(py, false) {
            self.unwatch(py, Direction::Read);
        }
    }

    pub(super) fn watch_write(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.writing.get(py) {
            return Ok(());
        }
        let owner = this.owner(py)?;
        let fresh = context::copy_current(py)?;
        drop(this.write_context.replace(py, Some(fresh)));
        owner
            .get()
            .native
            .core
            .watch(this.fd, Direction::Write, 0, MODE)
            .map_err(watch_error)?;
        this.writing.set(py, true);
        let watcher = Watcher::Stream(slf.clone().unbind());
        Loop::set_watcher(&owner, this.fd, Direction::Write, watcher)
    }

    pub(super) fn unwatch_write(&self, py: Python<'_>) {
        if self.writing.replace(py, false) {
            self.unwatch(py, Direction::Write);
        }
    }

    fn unwatch(&self, py: Python<'_>, direction: Direction) {
        if let Some(owner) = self.owner.cloned(py) {
            drop(owner.get().remove_watcher(py, self.fd, direction));
        }
    }

    /// The fd is ready: called by the turn, for a watch that may have ended since.
    pub fn ready(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (active, context) = match direction {
            Direction::Read => (this.reading.get(py), &this.read_context),
            Direction::Write => (this.writing.get(py), &this.write_context),
        };
        let Some(context) = context.cloned(py).filter(|_| active) else {
            return Ok(());
        };
        context::enter(py, &context)?;
        let result = match direction {
            Direction::Read => Self::read_ready(slf),
            Direction::Write => Self::write_ready(slf),
        };
        context::leave(py, &context)?;
        result
    }

    /// The second step of a new connection, after `connection_made`.
    pub fn start(slf: &Bound<'_, Self>, waiter: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        Self::watch_read(slf)?;
        match waiter {
            Some(waiter) if !waiter.call_method0("cancelled")?.is_truthy()? => waiter
                .call_method1("set_result", (slf.py().None(),))
                .map(drop),
            _ => Ok(()),
        }
    }

    // ---- ending ----

    /// Reports what is not an `OSError` and closes the connection.
    pub(super) fn fatal(slf: &Bound<'_, Self>, error: PyErr, message: &str) -> PyResult<()> {
        let py = slf.py();
        if is_fatal(py, &error) {
            return Err(error);
        }
        let value = error.into_value(py);
        Self::_fatal_error(slf, value.into_any(), message)
    }

    pub(super) fn schedule_lost(slf: &Bound<'_, Self>, error: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.lost.set(py, this.lost.get(py) + 1);
        let owner = this.owner(py)?;
        let callback = slf.getattr(intern!(py, "_call_connection_lost"))?;
        Loop::enqueue(&owner, callback, PyTuple::new(py, [error])?)
    }
}

#[pymethods]
impl StreamTransport {
    #[new]
    #[pyo3(signature = (r#loop, sock, protocol, waiter=None, extra=None, server=None))]
    fn new(
        r#loop: &Bound<'_, Loop>,
        sock: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        waiter: Option<&Bound<'_, PyAny>>,
        extra: Option<&Bound<'_, PyDict>>,
        server: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<Self>> {
        let py = sock.py();
        let socket = Socket::new(sock)?;
        let fd = socket.fd(py);
        let extra = match extra {
            Some(extra) => extra.copy()?,
            None => PyDict::new(py),
        };
        fill_extra(sock, &extra)?;
        set_nodelay(fd);
        let transport = Bound::new(
            py,
            StreamTransport {
                owner: GilCell::new(Some(r#loop.clone().unbind())),
                socket: GilCell::new(Some(socket)),
                fd,
                extra: extra.unbind(),
                protocol: GilCell::default(),
                buffered: GilCell::default(),
                server: GilCell::new(server.map(|server| server.clone().unbind())),
                read_context: GilCell::default(),
                write_context: GilCell::default(),
                queue: GilCell::default(),
                limits: GilCell::default(),
                protocol_paused: GilCell::default(),
                closing: GilCell::default(),
                lost: GilCell::default(),
                paused: GilCell::default(),
                eof: GilCell::default(),
                reading: GilCell::default(),
                writing: GilCell::default(),
                wrote_in: GilCell::default(),
                flush_pending: GilCell::default(),
                empty_waiter: GilCell::default(),
            },
        )?;
        Self::set_protocol(&transport, protocol)?;
        if let Some(server) = server {
            attach(server, "_attach", &transport)?;
        }
        r#loop
            .getattr(intern!(py, "_transports"))?
            .set_item(fd, &transport)?;
        let made = protocol.getattr(intern!(py, "connection_made"))?;
        Loop::enqueue(r#loop, made, PyTuple::new(py, [&transport])?)?;
        r#loop.get().push_item(
            py,
            Item::Start(
                transport.clone().unbind(),
                waiter.map(|waiter| waiter.clone().unbind()),
            ),
        );
        Ok(transport.unbind())
    }

    // ---- the transport as protocols see it ----

    #[pyo3(signature = (name, default=None))]
    fn get_extra_info<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.extra.bind(py).get_item(name)?.or(default))
    }

    fn set_protocol(slf: &Bound<'_, Self>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        static BUFFERED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let py = slf.py();
        let class = BUFFERED.import(py, "asyncio.protocols", "BufferedProtocol")?;
        let this = slf.get();
        this.buffered.set(py, protocol.is_instance(class)?);
        drop(this.protocol.replace(py, Some(protocol.clone().unbind())));
        Ok(())
    }

    fn get_protocol(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.protocol.cloned(py)
    }

    fn is_closing(&self, py: Python<'_>) -> bool {
        self.closing.get(py)
    }

    fn is_reading(&self, py: Python<'_>) -> bool {
        !self.closing.get(py) && !self.paused.get(py)
    }

    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.is_reading(py) {
            this.paused.set(py, true);
            this.unwatch_read(py);
            this.log_debug(slf, "%r pauses reading")?;
        }
        Ok(())
    }

    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.closing.get(py) && this.paused.get(py) {
            this.paused.set(py, false);
            Self::watch_read(slf)?;
            this.log_debug(slf, "%r resumes reading")?;
        }
        Ok(())
    }

    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::write_data(slf, data)
    }

    fn writelines(slf: &Bound<'_, Self>, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::write_list(slf, list_of_data)
    }

    fn write_eof(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.closing.get(py) || this.eof.get(py) {
            return Ok(());
        }
        Self::flush_deferred(slf)?;
        this.eof.set(py, true);
        if this.queue.with(py, |queue| queue.is_empty()) {
            this.shutdown(py)?;
        }
        Ok(())
    }

    fn can_write_eof(&self) -> bool {
        true
    }

    fn get_write_buffer_size(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Self::flush_deferred(slf)?;
        Ok(slf.get().queue.with(slf.py(), |queue| queue.len()))
    }

    fn get_write_buffer_limits(&self, py: Python<'_>) -> (usize, usize) {
        let limits = self.limits.get(py);
        (limits.low, limits.high)
    }

    #[pyo3(signature = (high=None, low=None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<i64>,
        low: Option<i64>,
    ) -> PyResult<()> {
        slf.get().limits.set(slf.py(), Limits::new(high, low)?);
        Self::flush_deferred(slf)?;
        Self::maybe_pause_protocol(slf)
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.closing.get(py) {
            return Ok(());
        }
        Self::flush_deferred(slf)?;
        if this.closing.replace(py, true) {
            // Sending failed just now, and that closes too.
            return Ok(());
        }
        this.unwatch_read(py);
        if this.queue.with(py, |queue| queue.is_empty()) {
            this.unwatch_write(py);
            Self::schedule_lost(slf, py.None())?;
        }
        Ok(())
    }

    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::_force_close(slf, slf.py().None())
    }

    // ---- what asyncio's own code uses ----

    fn _force_close(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.lost.get(py) > 0 {
            return Ok(());
        }
        Self::flush_deferred(slf)?;
        if this.lost.get(py) > 0 {
            return Ok(());
        }
        drop(this.queue.with(py, |queue| queue.clear()));
        this.unwatch_write(py);
        if !this.closing.replace(py, true) {
            this.unwatch_read(py);
        }
        Self::schedule_lost(slf, exc)
    }

    #[pyo3(signature = (exc, message="Fatal error on transport"))]
    fn _fatal_error(slf: &Bound<'_, Self>, exc: Py<PyAny>, message: &str) -> PyResult<()> {
        let py = slf.py();
        if let Some(owner) = slf.get().owner.cloned(py) {
            let report = owner.bind(py);
            report.call_method1("_transport_failed", (slf, &exc, message))?;
        }
        Self::_force_close(slf, exc)
    }

    /// The connection is over: tells the protocol, closes the socket, lets go of everything.
    pub(super) fn _call_connection_lost(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let told = match this.protocol.cloned(py) {
            Some(protocol) => call1(
                protocol.bind(py),
                intern!(py, "connection_lost"),
                exc.bind(py),
            )
            .map(drop),
            None => Ok(()),
        };
        let socket = this.socket.replace(py, None);
        let closed = match &socket {
            Some(socket) => call0(socket.object().bind(py), intern!(py, "close")).map(drop),
            None => Ok(()),
        };
        let owner = this.owner.take(py);
        let protocol = this.protocol.take(py);
        let contexts = (this.read_context.take(py), this.write_context.take(py));
        let detached = match this.server.take(py) {
            Some(server) => attach(server.bind(py), "_detach", slf),
            None => Ok(()),
        };
        drop((owner, protocol, contexts));
        if let Some(waiter) = this.empty_waiter.cloned(py) {
            let error = PyConnectionError::new_err("Connection is closed by peer");
            waiter.call_method1(py, "set_exception", (error.into_value(py),))?;
        }
        told.and(closed).and(detached)
    }

    fn _make_empty_waiter(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if this.empty_waiter.with(py, |waiter| waiter.is_some()) {
            return Err(PyRuntimeError::new_err("Empty waiter is already set"));
        }
        Self::flush_deferred(slf)?;
        let waiter = this.owner(py)?.call_method0("create_future")?;
        if this.queue.with(py, |queue| queue.is_empty()) {
            waiter.call_method1("set_result", (py.None(),))?;
        }
        this.empty_waiter.replace(py, Some(waiter.clone().unbind()));
        Ok(waiter.unbind())
    }

    fn _reset_empty_waiter(&self, py: Python<'_>) {
        drop(self.empty_waiter.take(py));
    }

    #[getter(_sock)]
    fn sock(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.socket
            .with(py, |socket| socket.as_ref().map(|socket| socket.object().clone_ref(py)))
    }

    #[getter(_sock_fd)]
    fn sock_fd(&self) -> RawFd {
        self.fd
    }

    #[getter(_loop)]
    fn event_loop(&self, py: Python<'_>) -> Option<Py<Loop>> {
        self.owner.cloned(py)
    }

    #[getter(_protocol)]
    fn protocol_attribute(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.protocol.cloned(py)
    }

    #[getter(_server)]
    fn server_attribute(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.server.cloned(py)
    }

    #[getter(_extra)]
    fn extra_attribute(&self, py: Python<'_>) -> Py<PyDict> {
        self.extra.clone_ref(py)
    }

    #[getter(_protocol_paused)]
    fn protocol_paused_attribute(&self, py: Python<'_>) -> bool {
        self.protocol_paused.get(py)
    }

    #[setter(_protocol_paused)]
    fn set_protocol_paused(&self, py: Python<'_>, paused: bool) {
        self.protocol_paused.set(py, paused);
    }

    #[getter(_conn_lost)]
    fn lost_attribute(&self, py: Python<'_>) -> u32 {
        self.lost.get(py)
    }

    #[getter(_closing)]
    fn closing_attribute(&self, py: Python<'_>) -> bool {
        self.closing.get(py)
    }

    #[getter(_paused)]
    fn paused_attribute(&self, py: Python<'_>) -> bool {
        self.paused.get(py)
    }

    #[getter(_eof)]
    fn eof_attribute(&self, py: Python<'_>) -> bool {
        self.eof.get(py)
    }

    #[classattr]
    fn _start_tls_compatible() -> bool {
        true
    }

    #[getter]
    fn _sendfile_compatible(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let modes = py.import("asyncio.constants")?.getattr("_SendfileMode")?;
        Ok(modes.getattr("TRY_NATIVE")?.unbind())
    }

    /// What `isinstance` sees: a subclass of asyncio.Transport. It cannot be a real base, because
    /// its `__slots__` would stand where the native fields are.
    #[getter(__class__)]
    fn seen_class(&self, py: Python<'_>) -> PyResult<Py<PyType>> {
        static SEEN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let class = SEEN.import(py, "erlang_loop.transports", "_ErlangSocketTransport")?;
        Ok(class.clone().unbind())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let this = slf.get();
        let mut words = vec!["_ErlangSocketTransport".to_owned()];
        if this.socket.with(py, |socket| socket.is_none()) {
            words.push("closed".to_owned());
        } else if this.closing.get(py) {
            words.push("closing".to_owned());
        }
        words.push(format!("fd={}", this.fd));
        if this.owner.with(py, |owner| owner.is_some()) {
            let word = |on| if on { "polling" } else { "idle" };
            let size = this.queue.with(py, |queue| queue.len());
            words.push(format!("read={}", word(this.reading.get(py))));
            words.push(format!("write=<{}, bufsize={size}>", word(this.writing.get(py))));
        }
        Ok(format!("<{}>", words.join(" ")))
    }

    fn __del__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(socket) = this.socket.replace(py, None) else {
            return Ok(());
        };
        let warn = py.import("warnings")?.getattr("warn")?;
        let options = PyDict::new(py);
        options.set_item("source", slf)?;
        let text = format!("unclosed transport {}", slf.repr()?);
        let category = pyo3::exceptions::PyResourceWarning::type_object(py);
        let warned = warn.call((text, category), Some(&options));
        socket.object().call_method0(py, "close")?;
        if let Some(server) = this.server.take(py) {
            attach(server.bind(py), "_detach", slf)?;
        }
        warned.map(drop)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.extra)?;
        let mut result = Ok(());
        self.owner.visit(|owner| result = visit.call(owner));
        result?;
        for cell in [
            &self.protocol,
            &self.server,
            &self.read_context,
            &self.write_context,
            &self.empty_waiter,
        ] {
            let mut result = Ok(());
            cell.visit(|object| result = visit.call(object));
            result?;
        }
        Ok(())
    }

    fn __clear__(&self, py: Python<'_>) {
        drop((
            self.owner.take(py),
            self.protocol.take(py),
            self.server.take(py),
            self.read_context.take(py),
            self.write_context.take(py),
            self.empty_waiter.take(py),
        ));
    }
}

impl StreamTransport {
    pub(super) fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        super::socket_calls::shutdown_write(self.live_fd(py)).map_err(os_error)
    }

    pub(super) fn log_debug(&self, slf: &Bound<'_, Self>, text: &str) -> PyResult<()> {
        let py = slf.py();
        match self.owner.cloned(py) {
            Some(owner) if owner.get().debug.get(py) => {
                let logger = py.import("asyncio.log")?.getattr("logger")?;
                logger.call_method1("debug", (text, slf)).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// `socket`, `sockname` and `peername`, as every asyncio transport has them.
fn fill_extra(sock: &Bound<'_, PyAny>, extra: &Bound<'_, PyDict>) -> PyResult<()> {
    static SHOWN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = sock.py();
    let shown = SHOWN.import(py, "asyncio.trsock", "TransportSocket")?;
    extra.set_item(intern!(py, "socket"), shown.call1((sock,))?)?;
    let name = call0(sock, intern!(py, "getsockname")).ok();
    extra.set_item(intern!(py, "sockname"), name)?;
    if !extra.contains(intern!(py, "peername"))? {
        let peer = call0(sock, intern!(py, "getpeername")).ok();
        extra.set_item(intern!(py, "peername"), peer)?;
    }
    Ok(())
}

/// `server._attach()` or `_detach()`; newer Pythons want to know which transport.
fn attach(
    server: &Bound<'_, PyAny>,
    method: &str,
    transport: &Bound<'_, StreamTransport>,
) -> PyResult<()> {
    static WANTS_TRANSPORT: PyOnceLock<bool> = PyOnceLock::new();
    let py = server.py();
    let wants = WANTS_TRANSPORT.get_or_try_init(py, || -> PyResult<bool> {
        let server = py.import("asyncio.base_events")?.getattr("Server")?;
        let code = server.getattr("_attach")?.getattr("__code__")?;
        Ok(code.getattr("co_argcount")?.extract::<u32>()? > 1)
    })?;
    match wants {
        true => server.call_method1(method, (transport,)).map(drop),
        false => server.call_method0(method).map(drop),
    }
}
