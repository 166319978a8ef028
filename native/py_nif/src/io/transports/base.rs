//! The base of all native transports: `_native.Transport`.
//!
//! A transport connects an fd with a protocol. This file has its state and what Python sees of it;
//! its life is described in this order: `beginning`, `watching`, `flow`, `ending`. How data moves
//! depends on the `kind`. Attributes are asyncio's, where asyncio's own code reads them (TLS,
//! sendfile, streams).

use std::os::fd::RawFd;

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::extra_info::ExtraInfo;
use super::flow::Limits;
use super::kind::TransportKind;
use super::open_file::OpenFile;
use crate::asyncio::loop_class::class::Loop;
use crate::cpython::arguments::Arguments;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::context;
use crate::io::stream::reading_way::Way;

#[pyclass(subclass, frozen, dict, weakref, module = "erlang_loop._native")]
pub struct Transport {
    /// False while CPython creates the object: it is all zeroes then, but the collector may see it.
    born: bool,
    pub kind: TransportKind,
    /// How the protocol takes its data.
    pub way: GilSlot<Way>,
    pub protocol_paused: GilSlot<bool>,
    pub closing: GilSlot<bool>,
    pub paused: GilSlot<bool>,
    pub reading: GilSlot<bool>,
    pub writing: GilSlot<bool>,
    /// `connection_lost` is scheduled or done; counts writes after that.
    pub lost: GilSlot<u32>,
    pub fd: RawFd,
    pub file: GilSlot<Option<OpenFile>>,
    pub info: ExtraInfo,
    pub owner: GilSlot<Option<Py<Loop>>>,
    pub protocol: GilSlot<Option<Py<PyAny>>>,
    pub server: GilSlot<Option<Py<PyAny>>>,
    /// The context in which `data_received` and similar methods run: that of the code that started
    /// reading.
    pub read_context: GilSlot<Option<Py<PyAny>>>,
    pub write_context: GilSlot<Option<Py<PyAny>>>,
    /// The context in which all methods of the protocol run, if asyncio passed one, which it does
    /// from Python 3.15 on. Before that, each callback has a copy of the current context.
    pub context: Option<Py<PyAny>>,
    pub limits: GilSlot<Limits>,
}

impl Transport {
    /// For a file that the program passed.
    pub fn build(
        kind: TransportKind,
        owner: &Bound<'_, Loop>,
        file: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        extra: Option<&Bound<'_, PyDict>>,
        server: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let info = ExtraInfo::of_object(kind, file, extra)?;
        Self::over(kind, owner, OpenFile::of(file)?, info, protocol, server)
    }

    pub fn over(
        kind: TransportKind,
        owner: &Bound<'_, Loop>,
        file: OpenFile,
        info: ExtraInfo,
        protocol: &Bound<'_, PyAny>,
        server: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = owner.py();
        Ok(Transport {
            born: true,
            kind,
            way: GilSlot::new(Way::of(protocol)?),
            protocol_paused: GilSlot::default(),
            closing: GilSlot::default(),
            paused: GilSlot::default(),
            reading: GilSlot::default(),
            writing: GilSlot::default(),
            lost: GilSlot::default(),
            fd: file.fd(py),
            file: GilSlot::new(Some(file)),
            info,
            owner: GilSlot::new(Some(owner.clone().unbind())),
            protocol: GilSlot::new(Some(protocol.clone().unbind())),
            server: GilSlot::new(server.map(|server| server.clone().unbind())),
            read_context: GilSlot::new(None),
            write_context: GilSlot::new(None),
            context: None,
            limits: GilSlot::default(),
        })
    }

    /// The context of a new callback.
    pub fn new_context(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.context {
            Some(context) => Ok(context.clone_ref(py)),
            None => context::copy_current(py),
        }
    }

    /// Schedules a method of the protocol, or one that calls it.
    pub fn enqueue(&self, callback: Bound<'_, PyAny>, argument: Bound<'_, PyAny>) -> PyResult<()> {
        let py = callback.py();
        let context = self.new_context(py)?.into_bound(py);
        let argument = Arguments::one(argument)?;
        Loop::enqueue(&self.owner(py)?, callback, argument, Some(context))
    }

    /// The loop; an error after the connection is lost, as accessing an attribute of `None` is in
    /// asyncio.
    pub fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Loop>> {
        match self.owner.cloned(py) {
            Some(owner) => Ok(owner.into_bound(py)),
            None => Err(PyRuntimeError::new_err("the transport is closed")),
        }
    }

    /// Programs that close a pipe behind its transport set `transport._pipe = None`.
    pub fn set_file_object(
        slf: &Bound<'_, Self>,
        object: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let file = object.map(OpenFile::of).transpose()?;
        drop(slf.get().file.replace(slf.py(), file));
        Ok(())
    }

    /// The fd while the file is open, else -1: the number may belong to another file by then.
    #[inline]
    pub fn live_fd(&self, py: Python<'_>) -> RawFd {
        let known = self.file.look(py, |file| match file {
            Some(OpenFile::Object(file)) => file.known_fd(py).ok_or_else(|| file.clone_ref(py)),
            Some(file) => Ok(file.fd(py)),
            None => Ok(-1),
        });
        // Called outside the slot, because it is Python code.
        known.unwrap_or_else(|file| file.fd(py))
    }
}

#[pymethods]
impl Transport {
    fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = protocol.py();
        self.way.set(py, Way::of(protocol)?);
        drop(self.protocol.replace(py, Some(protocol.clone().unbind())));
        Ok(())
    }

    #[pyo3(signature = (exc, message=None))]
    fn _fatal_error(slf: &Bound<'_, Self>, exc: Py<PyAny>, message: Option<&str>) -> PyResult<()> {
        let default = match slf.get().kind.is_socket() {
            true => "Fatal error on transport",
            false => "Fatal error on pipe transport",
        };
        Self::fail(slf, exc, message.unwrap_or(default))
    }

    fn _call_connection_lost(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        Self::finish(slf, &exc)
    }

    #[getter(_sock)]
    fn sock(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.file_object(py)
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
    fn extra_attribute(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        self.all_extra(py).map(Bound::unbind)
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

    #[getter(__class__)]
    fn class(&self, py: Python<'_>) -> PyResult<Py<PyType>> {
        self.seen_class(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::describe(slf)
    }

    fn __del__(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::forgotten(slf)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !self.born {
            return Ok(());
        }
        self.info.traverse(visit)?;
        self.file
            .visit(|file| file.map_or(Ok(()), |file| file.traverse(visit)))?;
        self.owner.visit(|owner| visit.call(owner))?;
        for slot in [
            &self.protocol,
            &self.server,
            &self.read_context,
            &self.write_context,
        ] {
            slot.visit(|object| visit.call(object))?;
        }
        visit.call(&self.context)
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
