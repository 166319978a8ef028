//! What all native transports have in common: `_native.Transport`.
//!
//! A transport connects an fd with a protocol. This base has the protocol, the watches, pausing,
//! flow control and the end of the connection; `stream` and `datagram` add how data moves.
//! Attributes are asyncio's, where asyncio's own code looks at them (TLS, sendfile, streams).

use std::os::fd::RawFd;

use event_loop::Direction;
use pyo3::exceptions::{PyResourceWarning, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use pyo3::{intern, PyTypeInfo};

use super::flow::Limits;
use super::open_file::OpenFile;
use super::protocol::{call0, call1, is_fatal};
use super::{DatagramTransport, StreamTransport};
use crate::python::context;
use crate::python::fd_callbacks::{watch_error, Watcher, MODE};
use crate::python::gil_cell::GilCell;
use crate::python::loop_class::Loop;
use crate::python::ready::Item;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Stream,
    Datagram,
}

#[pyclass(subclass, frozen, dict, weakref, module = "erlang_loop._native")]
pub struct Transport {
    /// False while CPython makes the object: it is then zeroes, but the collector may see it.
    born: bool,
    kind: Kind,
    owner: GilCell<Option<Py<Loop>>>,
    file: GilCell<Option<OpenFile>>,
    pub fd: RawFd,
    extra: Py<PyDict>,
    pub protocol: GilCell<Option<Py<PyAny>>>,
    /// The protocol gives its own buffers (asyncio.BufferedProtocol).
    pub buffered: GilCell<bool>,
    server: GilCell<Option<Py<PyAny>>>,
    /// In which `data_received` and its like run: that of whoever started the reading.
    read_context: GilCell<Option<Py<PyAny>>>,
    write_context: GilCell<Option<Py<PyAny>>>,
    pub limits: GilCell<Limits>,
    protocol_paused: GilCell<bool>,
    pub closing: GilCell<bool>,
    /// `connection_lost` is scheduled or done; counts writes after that.
    pub lost: GilCell<u32>,
    paused: GilCell<bool>,
    reading: GilCell<bool>,
    writing: GilCell<bool>,
}

impl Transport {
    pub fn build(
        kind: Kind,
        owner: &Bound<'_, Loop>,
        sock: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        extra: Option<&Bound<'_, PyDict>>,
        server: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = sock.py();
        let file = OpenFile::new(sock)?;
        let extra = match extra {
            Some(extra) => extra.copy()?,
            None => PyDict::new(py),
        };
        fill_extra(sock, &extra)?;
        Ok(Transport {
            born: true,
            kind,
            owner: GilCell::new(Some(owner.clone().unbind())),
            fd: file.fd(py),
            file: GilCell::new(Some(file)),
            extra: extra.unbind(),
            protocol: GilCell::new(Some(protocol.clone().unbind())),
            buffered: GilCell::new(is_buffered(protocol)?),
            server: GilCell::new(server.map(|server| server.clone().unbind())),
            read_context: GilCell::default(),
            write_context: GilCell::default(),
            limits: GilCell::default(),
            protocol_paused: GilCell::default(),
            closing: GilCell::default(),
            lost: GilCell::default(),
            paused: GilCell::default(),
            reading: GilCell::default(),
            writing: GilCell::default(),
        })
    }

    /// Makes a new transport known to its server and loop, and schedules its beginning: first
    /// `connection_made`, then reading, then the waiter.
    pub fn begin(slf: &Bound<'_, Self>, waiter: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner(py)?;
        if let Some(server) = this.server.cloned(py) {
            attach(server.bind(py), "_attach", slf)?;
        }
        let transports = owner.getattr(intern!(py, "_transports"))?;
        transports.set_item(this.fd, slf)?;
        if let Some(protocol) = this.protocol.cloned(py) {
            let made = protocol.bind(py).getattr(intern!(py, "connection_made"))?;
            Loop::enqueue(&owner, made, PyTuple::new(py, [slf])?)?;
        }
        drop(this.read_context.replace(py, Some(context::copy_current(py)?)));
        let waiter = waiter.map(|waiter| waiter.clone().unbind());
        owner
            .get()
            .push_item(py, Item::Start(slf.clone().unbind(), waiter));
        Ok(())
    }

    /// The second step of the beginning, after `connection_made`. Whoever waits for it is told
    /// in any case: that the fd cannot be watched is an error of its own.
    pub fn start(slf: &Bound<'_, Self>, waiter: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let watched = match slf.get().is_reading(slf.py()) {
            true => Self::watch_in_context_of_begin(slf),
            false => Ok(()),
        };
        if let Some(waiter) = waiter {
            if !waiter.call_method0("cancelled")?.is_truthy()? {
                waiter.call_method1("set_result", (slf.py().None(),))?;
            }
        }
        watched
    }

    /// Reading belongs to whoever made the transport, not to the turn that begins it.
    fn watch_in_context_of_begin(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Some(context) = slf.get().read_context.cloned(py) else {
            return Self::watch(slf, Direction::Read);
        };
        context::enter(py, &context)?;
        let watched = Self::watch(slf, Direction::Read);
        context::leave(py, &context)?;
        watched
    }

    pub fn peername<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let peer = self.extra.bind(py).get_item(intern!(py, "peername"))?;
        Ok(peer.unwrap_or_else(|| py.None().into_bound(py)))
    }

    /// The loop; an error after the connection is lost, as touching `None` is in asyncio.
    pub fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Loop>> {
        match self.owner.cloned(py) {
            Some(owner) => Ok(owner.into_bound(py)),
            None => Err(PyRuntimeError::new_err("the transport is closed")),
        }
    }

    /// The fd while the file is open, else -1: its number may be another's by then.
    #[inline]
    pub fn live_fd(&self, py: Python<'_>) -> RawFd {
        self.file
            .with(py, |file| file.as_ref().map_or(-1, |file| file.fd(py)))
    }

    // ---- watching ----

    fn flag(&self, direction: Direction) -> &GilCell<bool> {
        match direction {
            Direction::Read => &self.reading,
            Direction::Write => &self.writing,
        }
    }

    fn context(&self, direction: Direction) -> &GilCell<Option<Py<PyAny>>> {
        match direction {
            Direction::Read => &self.read_context,
            Direction::Write => &self.write_context,
        }
    }

    pub fn watch(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.flag(direction).get(py) {
            return Ok(());
        }
        let owner = this.owner(py)?;
        let fresh = context::copy_current(py)?;
        drop(this.context(direction).replace(py, Some(fresh)));
        let core = &owner.get().native.core;
        core.watch(this.fd, direction, 0, MODE).map_err(watch_error)?;
        this.flag(direction).set(py, true);
        let watcher = Watcher::Transport(slf.clone().unbind());
        Loop::set_watcher(&owner, this.fd, direction, watcher)
    }

    pub fn unwatch(&self, py: Python<'_>, direction: Direction) {
        if !self.flag(direction).replace(py, false) {
            return;
        }
        if let Some(owner) = self.owner.cloned(py) {
            drop(owner.get().remove_watcher(py, self.fd, direction));
        }
    }

    /// The fd is ready: called by the turn, for a watch that may have ended since.
    pub fn ready(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let active = this.flag(direction).get(py) && this.lost.get(py) == 0;
        let Some(context) = this.context(direction).cloned(py).filter(|_| active) else {
            return Ok(());
        };
        context::enter(py, &context)?;
        let result = match (this.kind, direction) {
            (Kind::Stream, Direction::Read) => StreamTransport::read_ready(slf.cast()?),
            (Kind::Stream, Direction::Write) => StreamTransport::write_ready(slf.cast()?),
            (Kind::Datagram, Direction::Read) => DatagramTransport::read_ready(slf.cast()?),
            (Kind::Datagram, Direction::Write) => DatagramTransport::write_ready(slf.cast()?),
        };
        context::leave(py, &context)?;
        result
    }

    // ---- flow control ----

    /// `size` bytes wait to be sent: too many, and the protocol is asked to pause.
    pub fn pause_above(slf: &Bound<'_, Self>, size: usize) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if size <= this.limits.get(py).high || this.protocol_paused.replace(py, true) {
            return Ok(());
        }
        Self::tell_protocol(slf, "pause_writing")
    }

    pub fn resume_below(slf: &Bound<'_, Self>, size: usize) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.protocol_paused.get(py) || size > this.limits.get(py).low {
            return Ok(());
        }
        this.protocol_paused.set(py, false);
        Self::tell_protocol(slf, "resume_writing")
    }

    fn tell_protocol(slf: &Bound<'_, Self>, method: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(protocol) = this.protocol.cloned(py) else {
            return Ok(());
        };
        let Err(error) = protocol.bind(py).call_method0(method) else {
            return Ok(());
        };
        if is_fatal(py, &error) {
            return Err(error);
        }
        let context = PyDict::new(py);
        context.set_item("message", format!("protocol.{method}() failed"))?;
        context.set_item("exception", error.into_value(py))?;
        context.set_item("transport", slf)?;
        context.set_item("protocol", protocol)?;
        let owner = this.owner(py)?;
        owner.call_method1("call_exception_handler", (context,)).map(drop)
    }

    // ---- the end ----

    /// Reports the error (the network's own only in debug mode) and closes the connection.
    pub fn fatal(slf: &Bound<'_, Self>, error: PyErr, message: &str) -> PyResult<()> {
        let py = slf.py();
        match is_fatal(py, &error) {
            true => Err(error),
            false => Self::_fatal_error(slf, error.into_value(py).into_any(), message),
        }
    }

    pub fn schedule_lost(slf: &Bound<'_, Self>, error: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.lost.set(py, this.lost.get(py) + 1);
        let owner = this.owner(py)?;
        let callback = slf.getattr(intern!(py, "_call_connection_lost"))?;
        Loop::enqueue(&owner, callback, PyTuple::new(py, [error])?)
    }

    /// Sends what waits for the end of the callback only.
    fn flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().kind {
            Kind::Stream => StreamTransport::flush_deferred(slf.cast()?),
            Kind::Datagram => Ok(()),
        }
    }

    fn has_output(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match slf.get().kind {
            Kind::Stream => StreamTransport::has_output(slf.cast()?),
            Kind::Datagram => DatagramTransport::has_output(slf.cast()?),
        }
    }

    fn discard_output(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().kind {
            Kind::Stream => StreamTransport::discard_output(slf.cast()?),
            Kind::Datagram => DatagramTransport::discard_output(slf.cast()?),
        }
    }

    /// Tells the protocol that the connection is over, closes the file, lets go of everything.
    pub fn finish(slf: &Bound<'_, Self>, error: &Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let told = match this.protocol.cloned(py) {
            Some(protocol) => {
                let name = intern!(py, "connection_lost");
                call1(protocol.bind(py), name, error.bind(py)).map(drop)
            }
            None => Ok(()),
        };
        let closed = match this.file.replace(py, None) {
            Some(file) => call0(file.object().bind(py), intern!(py, "close")).map(drop),
            None => Ok(()),
        };
        let detached = match this.server.take(py) {
            Some(server) => attach(server.bind(py), "_detach", slf),
            None => Ok(()),
        };
        drop((
            this.owner.take(py),
            this.protocol.take(py),
            this.read_context.take(py),
            this.write_context.take(py),
        ));
        told.and(closed).and(detached)
    }

    pub fn log_debug(slf: &Bound<'_, Self>, text: &str) -> PyResult<()> {
        let py = slf.py();
        match slf.get().owner.cloned(py) {
            Some(owner) if owner.get().debug.get(py) => {
                let logger = py.import("asyncio.log")?.getattr("logger")?;
                logger.call_method1("debug", (text, slf)).map(drop)
            }
            _ => Ok(()),
        }
    }
}

#[pymethods]
impl Transport {
    #[pyo3(signature = (name, default=None))]
    fn get_extra_info<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.extra.bind(py).get_item(name)?.or(default))
    }

    fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = protocol.py();
        self.buffered.set(py, is_buffered(protocol)?);
        drop(self.protocol.replace(py, Some(protocol.clone().unbind())));
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
            this.unwatch(py, Direction::Read);
            Self::log_debug(slf, "%r pauses reading")?;
        }
        Ok(())
    }

    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.closing.get(py) && this.paused.get(py) {
            this.paused.set(py, false);
            Self::watch(slf, Direction::Read)?;
            Self::log_debug(slf, "%r resumes reading")?;
        }
        Ok(())
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
        let size = slf.call_method0("get_write_buffer_size")?.extract()?;
        Self::pause_above(slf, size)
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.closing.get(py) {
            return Ok(());
        }
        Self::flush(slf)?;
        if this.closing.replace(py, true) {
            // Sending failed just now, and that closes too.
            return Ok(());
        }
        this.unwatch(py, Direction::Read);
        if !Self::has_output(slf)? {
            this.unwatch(py, Direction::Write);
            Self::schedule_lost(slf, py.None())?;
        }
        Ok(())
    }

    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::_force_close(slf, slf.py().None())
    }

    fn _force_close(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.lost.get(py) == 0 {
            Self::flush(slf)?;
        }
        // Asked anew: sending may have failed just now.
        if this.lost.get(py) > 0 {
            return Ok(());
        }
        Self::discard_output(slf)?;
        this.unwatch(py, Direction::Write);
        this.closing.set(py, true);
        this.unwatch(py, Direction::Read);
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

    fn _call_connection_lost(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        Self::finish(slf, &exc)
    }

    #[getter(_sock)]
    fn sock(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.file
            .with(py, |file| file.as_ref().map(|file| file.object().clone_ref(py)))
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

    /// What `isinstance` sees: a subclass of asyncio's transport. It cannot be a real base,
    /// because its `__slots__` would stand where the native fields are.
    #[getter(__class__)]
    fn seen_class(&self, py: Python<'_>) -> PyResult<Py<PyType>> {
        static STREAM: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static DATAGRAM: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let cell = match self.kind {
            Kind::Stream => &STREAM,
            Kind::Datagram => &DATAGRAM,
        };
        let class = cell.import(py, "erlang_loop.transports", self.class_name())?;
        Ok(class.clone().unbind())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let this = slf.get();
        let mut words = vec![this.class_name().to_owned()];
        if this.file.with(py, |file| file.is_none()) {
            words.push("closed".to_owned());
        } else if this.closing.get(py) {
            words.push("closing".to_owned());
        }
        words.push(format!("fd={}", this.fd));
        if this.owner.with(py, |owner| owner.is_some()) {
            let word = |on| if on { "polling" } else { "idle" };
            let size: usize = slf.call_method0("get_write_buffer_size")?.extract()?;
            words.push(format!("read={}", word(this.reading.get(py))));
            words.push(format!("write=<{}, bufsize={size}>", word(this.writing.get(py))));
        }
        Ok(format!("<{}>", words.join(" ")))
    }

    /// Dropped by the program without `close()`.
    fn __del__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let text = format!("unclosed transport {}", slf.repr()?);
        let Some(file) = this.file.replace(py, None) else {
            return Ok(());
        };
        let options = PyDict::new(py);
        options.set_item("source", slf)?;
        let warn = py.import("warnings")?.getattr("warn")?;
        let warned = warn.call((text, PyResourceWarning::type_object(py)), Some(&options));
        file.object().call_method0(py, "close")?;
        if let Some(server) = this.server.take(py) {
            attach(server.bind(py), "_detach", slf)?;
        }
        warned.map(drop)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !self.born {
            return Ok(());
        }
        visit.call(&self.extra)?;
        let mut result = Ok(());
        self.owner.visit(|owner| result = visit.call(owner));
        result?;
        for cell in [
            &self.protocol,
            &self.server,
            &self.read_context,
            &self.write_context,
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
        ));
    }
}

impl Transport {
    fn class_name(&self) -> &'static str {
        match self.kind {
            Kind::Stream => "_ErlangSocketTransport",
            Kind::Datagram => "_ErlangDatagramTransport",
        }
    }
}

fn is_buffered(protocol: &Bound<'_, PyAny>) -> PyResult<bool> {
    static BUFFERED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = BUFFERED.import(protocol.py(), "asyncio.protocols", "BufferedProtocol")?;
    protocol.is_instance(class)
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
    transport: &Bound<'_, Transport>,
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
