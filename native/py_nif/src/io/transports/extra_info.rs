//! The data behind `get_extra_info`. A connection that we opened or accepted stores its addresses
//! as numbers, and the dictionary and the socket object are created on first use: most programs use
//! few of them (`bench/`: memory_connection, churn, client_connect).

use std::net::Ipv4Addr;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::base::Transport;
use super::kind::TransportKind;
use super::open_file::OpenFile;
use super::python_sockets;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::method_calls::call0;
use crate::io::sys::address::{Address, ipv4_to_python};

/// The address of one end.
pub enum Name {
    V4(Ipv4Addr, u16),
    Object(Py<PyAny>),
}

impl Name {
    pub fn of(py: Python<'_>, address: &Address) -> PyResult<Self> {
        match address.as_v4() {
            Some((host, port)) => Ok(Name::V4(host, port)),
            None => Ok(Name::Object(address.to_python(py)?.unbind())),
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Name::V4(host, port) => Name::V4(*host, *port),
            Name::Object(object) => Name::Object(object.clone_ref(py)),
        }
    }

    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Name::V4(host, port) => ipv4_to_python(py, *host, *port),
            Name::Object(object) => Ok(object.bind(py).clone()),
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Name::V4(..) => Ok(()),
            Name::Object(object) => visit.call(object),
        }
    }

    /// The family of a socket with this address.
    fn family(&self, py: Python<'_>) -> libc::c_int {
        match self {
            Name::V4(..) => libc::AF_INET,
            Name::Object(object) => match object.bind(py).cast::<PyTuple>() {
                Ok(tuple) if tuple.len() == 4 => libc::AF_INET6,
                Ok(_) => libc::AF_INET,
                Err(_) => libc::AF_UNIX,
            },
        }
    }
}

/// The addresses of both ends of our own connection.
pub struct Names {
    pub own: Name,
    pub peer: Name,
}

impl Names {
    /// As `get_extra_info` returns them.
    pub fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let known = PyDict::new(py);
        known.set_item(intern!(py, "sockname"), self.own.to_python(py)?)?;
        known.set_item(intern!(py, "peername"), self.peer.to_python(py)?)?;
        Ok(known)
    }

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.own.traverse(visit)?;
        self.peer.traverse(visit)
    }
}

pub struct ExtraInfo {
    /// The addresses until they are in `known`.
    names: Option<Names>,
    known: GilSlot<Option<Py<PyDict>>>,
    /// The socket or pipe, open or not. None for our own connection before the first use.
    shown: GilSlot<Option<Py<PyAny>>>,
}

impl ExtraInfo {
    /// For a connection without a Python object.
    pub fn of_names(names: Names) -> Self {
        ExtraInfo {
            names: Some(names),
            known: GilSlot::new(None),
            shown: GilSlot::new(None),
        }
    }

    /// For a file that the program passed, with what is known of it.
    pub fn of_object(
        kind: TransportKind,
        file: &Bound<'_, PyAny>,
        extra: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = file.py();
        let known = match extra {
            Some(extra) => extra.copy()?,
            None => PyDict::new(py),
        };
        fill(kind, file, &known)?;
        Ok(ExtraInfo {
            names: None,
            known: GilSlot::new(Some(known.unbind())),
            shown: GilSlot::new(Some(file.clone().unbind())),
        })
    }

    /// The dictionary behind `get_extra_info`, without `socket`.
    pub fn known<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(known) = self.known.cloned(py) {
            return Ok(known.into_bound(py));
        }
        let known = match &self.names {
            Some(names) => names.to_dict(py)?,
            None => PyDict::new(py),
        };
        drop(self.known.replace(py, Some(known.clone().unbind())));
        Ok(known)
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(names) = &self.names {
            names.traverse(visit)?;
        }
        self.known.visit(|known| visit.call(known))?;
        self.shown.visit(|shown| visit.call(shown))
    }
}

/// The pipe, or `sockname` and `peername`, of an object that the program passed.
fn fill(kind: TransportKind, file: &Bound<'_, PyAny>, known: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = file.py();
    if !kind.is_socket() {
        return known.set_item(intern!(py, "pipe"), file);
    }
    for (name, method) in [
        (intern!(py, "sockname"), intern!(py, "getsockname")),
        (intern!(py, "peername"), intern!(py, "getpeername")),
    ] {
        if !known.contains(name)? {
            known.set_item(name, call0(file, method).ok())?;
        }
    }
    Ok(())
}

impl Transport {
    pub fn peername<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let peer = self.info.known(py)?.get_item(intern!(py, "peername"))?;
        Ok(peer.unwrap_or_else(|| py.None().into_bound(py)))
    }

    pub fn extra<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = name.py();
        if let Some(known) = self.info.known(py)?.get_item(name)? {
            return Ok(known);
        }
        if self.kind.is_socket() && name.eq(intern!(py, "socket"))? {
            return self.show_socket(py);
        }
        Ok(default.unwrap_or_else(|| py.None().into_bound(py)))
    }

    /// Everything that `get_extra_info` can return.
    pub fn all_extra<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.kind.is_socket() {
            self.show_socket(py)?;
        }
        self.info.known(py)
    }

    /// `get_extra_info("socket")`, created on first use: most never are.
    fn show_socket<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static SHOWN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let known = self.info.known(py)?;
        if let Some(shown) = known.get_item(intern!(py, "socket"))? {
            return Ok(shown);
        }
        let class = SHOWN.import(py, "asyncio.trsock", "TransportSocket")?;
        let shown = class.call1((self.socket_object(py)?,))?;
        known.set_item(intern!(py, "socket"), &shown)?;
        Ok(shown)
    }

    /// The socket or pipe that the transport was created for. For our own connection it is created
    /// here, and closes the fd from then on.
    fn socket_object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(shown) = self.info.shown.cloned(py) {
            return Ok(shown.into_bound(py));
        }
        let is_ours = |file: Option<&OpenFile>| matches!(file, Some(OpenFile::Own(_)));
        let object = match self.file.look(py, is_ours) {
            true => self.pass_to_object(python_sockets::of_fd(py, self.fd)?)?,
            false => {
                let own = self.info.names.as_ref().map(|names| names.own.family(py));
                python_sockets::closed(py, own.unwrap_or(libc::AF_UNIX))?
            }
        };
        drop(self.info.shown.replace(py, Some(object.clone().unbind())));
        Ok(object)
    }

    /// The fd has two owners; from here on it has one, the object.
    fn pass_to_object<'py>(&self, object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        let file = OpenFile::of(&object)?;
        match self.file.take(py) {
            Some(ours @ OpenFile::Own(_)) => {
                ours.into_raw();
                drop(self.file.replace(py, Some(file)));
            }
            // It was closed while the object was created.
            other => {
                drop(self.file.replace(py, other));
                object.call_method0("detach")?;
            }
        }
        Ok(object)
    }

    /// The Python object behind the fd, while it is open.
    pub fn file_object(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.is_closed(py) {
            return Ok(None);
        }
        // An object that the program assigned (`_pipe`) is not the one that is returned.
        let object = self.file.look(py, |file| {
            let object = file.and_then(OpenFile::object);
            object.map(|object| object.object().clone_ref(py))
        });
        match object {
            Some(object) => Ok(Some(object)),
            None => self.socket_object(py).map(|made| Some(made.unbind())),
        }
    }
}
