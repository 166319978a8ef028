//! What all native transports have in common: `_native.Transport`.
//!
//! A transport connects an fd with a protocol. This file has its state and what Python sees of it;
//! what happens to it is told in order: `beginning`, `watching`, `flow`, `ending`. How data moves
//! differs by `kind`. Attributes are asyncio's, where asyncio's own code looks at them (TLS,
//! sendfile, streams).

use std::os::fd::RawFd;

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::beginning::fill_extra;
use super::flow::Limits;
use super::kind::Kind;
use super::open_file::OpenFile;
use super::reading_way::Way;
use crate::python::gil_cell::GilCell;
use crate::python::loop_class::Loop;

#[pyclass(subclass, frozen, dict, weakref, module = "erlang_loop._native")]
pub struct Transport {
    /// False while CPython makes the object: it is then zeroes, but the collector may see it.
    born: bool,
    pub kind: Kind,
    pub owner: GilCell<Option<Py<Loop>>>,
    pub file: GilCell<Option<OpenFile>>,
    /// The socket or pipe it was made for, open or not: what `get_extra_info` shows.
    shown: Py<PyAny>,
    pub fd: RawFd,
    pub extra: Py<PyDict>,
    pub protocol: GilCell<Option<Py<PyAny>>>,
    /// How the protocol wants its data.
    pub way: GilCell<Way>,
    pub server: GilCell<Option<Py<PyAny>>>,
    /// In which `data_received` and its like run: that of whoever started the reading.
    pub read_context: GilCell<Option<Py<PyAny>>>,
    pub write_context: GilCell<Option<Py<PyAny>>>,
    pub limits: GilCell<Limits>,
    pub protocol_paused: GilCell<bool>,
    pub closing: GilCell<bool>,
    /// `connection_lost` is scheduled or done; counts writes after that.
    pub lost: GilCell<u32>,
    pub paused: GilCell<bool>,
    pub reading: GilCell<bool>,
    pub writing: GilCell<bool>,
}

impl Transport {
    pub fn build(
        kind: Kind,
        owner: &Bound<'_, Loop>,
        file: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        extra: Option<&Bound<'_, PyDict>>,
        server: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = file.py();
        let open = OpenFile::new(file)?;
        let extra = match extra {
            Some(extra) => extra.copy()?,
            None => PyDict::new(py),
        };
        fill_extra(kind, file, &extra)?;
        Ok(Transport {
            born: true,
            kind,
            owner: GilCell::new(Some(owner.clone().unbind())),
            fd: open.fd(py),
            file: GilCell::new(Some(open)),
            shown: file.clone().unbind(),
            extra: extra.unbind(),
            protocol: GilCell::new(Some(protocol.clone().unbind())),
            way: GilCell::new(Way::of(protocol)?),
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

    pub fn peername<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let peer = self.extra.bind(py).get_item(intern!(py, "peername"))?;
        Ok(peer.unwrap_or_else(|| py.None().into_bound(py)))
    }

    /// Whether its own address is one of the internet's, `(host, port, ...)`.
    pub fn is_internet(&self, py: Python<'_>) -> PyResult<bool> {
        let name = self.extra.bind(py).get_item(intern!(py, "sockname"))?;
        Ok(name.is_some_and(|name| name.is_instance_of::<PyTuple>()))
    }

    /// `get_extra_info("socket")`, made when first asked for: most never are.
    fn show_socket<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static SHOWN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let extra = self.extra.bind(py);
        if let Some(shown) = extra.get_item(intern!(py, "socket"))? {
            return Ok(shown);
        }
        let class = SHOWN.import(py, "asyncio.trsock", "TransportSocket")?;
        let shown = class.call1((&self.shown,))?;
        extra.set_item(intern!(py, "socket"), &shown)?;
        Ok(shown)
    }

    /// The loop; an error after the connection is lost, as touching `None` is in asyncio.
    pub fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Loop>> {
        match self.owner.cloned(py) {
            Some(owner) => Ok(owner.into_bound(py)),
            None => Err(PyRuntimeError::new_err("the transport is closed")),
        }
    }

    /// The Python object behind the fd, while it is open.
    pub fn file_object(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.file.with(py, |file| {
            file.as_ref().map(|file| file.object().clone_ref(py))
        })
    }

    /// Programs that close a pipe behind its transport say so: `transport._pipe = None`.
    pub fn set_file_object(
        slf: &Bound<'_, Self>,
        object: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let file = object.map(OpenFile::new).transpose()?;
        drop(slf.get().file.replace(slf.py(), file));
        Ok(())
    }

    /// The fd while the file is open, else -1: its number may be another's by then.
    #[inline]
    pub fn live_fd(&self, py: Python<'_>) -> RawFd {
        let known = self.file.with(py, |file| match file {
            Some(file) => file.known_fd(py).ok_or_else(|| file.clone_ref(py)),
            None => Ok(-1),
        });
        // Asked outside of the cell: that is Python code.
        known.unwrap_or_else(|file| file.fd(py))
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
        if let Some(known) = self.extra.bind(py).get_item(name)? {
            return Ok(Some(known));
        }
        match self.kind.is_socket() && name.eq(intern!(py, "socket"))? {
            true => self.show_socket(py).map(Some),
            false => Ok(default),
        }
    }

    fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = protocol.py();
        self.way.set(py, Way::of(protocol)?);
        drop(self.protocol.replace(py, Some(protocol.clone().unbind())));
        Ok(())
    }

    fn get_protocol(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.protocol.cloned(py)
    }

    fn is_closing(&self, py: Python<'_>) -> bool {
        self.closing.get(py)
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::end(slf)
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
    fn sock(&self, py: Python<'_>) -> Option<Py<PyAny>> {
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
        if self.kind.is_socket() {
            self.show_socket(py)?;
        }
        Ok(self.extra.clone_ref(py))
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
        visit.call(&self.extra)?;
        visit.call(&self.shown)?;
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
