//! The file behind a transport's fd, while it is open.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use crate::cpython::method_calls::call0;
use crate::cpython::objects::socket_object::SocketObject;

pub enum OpenFile {
    /// A socket that we opened, and that has no Python object yet: most never get one.
    Own(OwnedFd),
    Object(FileObject),
}

/// A Python socket or another file, and its fd as the object itself reports it: -1 after `close()`.
///
/// The number of a closed fd may belong to another file by now, so it is read before every use; for
/// sockets of the standard library that is one load.
pub enum FileObject {
    Socket(SocketObject),
    Other(Py<PyAny>),
}

impl OpenFile {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        FileObject::new(object).map(OpenFile::Object)
    }

    pub fn object(&self) -> Option<&FileObject> {
        match self {
            OpenFile::Own(_) => None,
            OpenFile::Object(object) => Some(object),
        }
    }

    /// The fd if it can be known without running Python code.
    #[inline]
    pub fn known_fd(&self, py: Python<'_>) -> Option<RawFd> {
        match self {
            OpenFile::Own(fd) => Some(fd.as_raw_fd()),
            OpenFile::Object(object) => object.known_fd(py),
        }
    }

    pub fn fd(&self, py: Python<'_>) -> RawFd {
        match self {
            OpenFile::Own(fd) => fd.as_raw_fd(),
            OpenFile::Object(object) => object.fd(py),
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            OpenFile::Own(_) => Ok(()),
            OpenFile::Object(object) => object.traverse(visit),
        }
    }

    /// Other code closes it from now on.
    pub fn into_raw(self) {
        if let OpenFile::Own(fd) = self {
            let _ = fd.into_raw_fd();
        }
    }

    pub fn close(self, py: Python<'_>) -> PyResult<()> {
        match self {
            // Whatever `close` returns, it is closed.
            OpenFile::Own(fd) => drop(fd),
            OpenFile::Object(file) => drop(call0(file.object().bind(py), intern!(py, "close"))?),
        }
        Ok(())
    }
}

impl FileObject {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match SocketObject::of(object)? {
            Some(socket) => FileObject::Socket(socket),
            None => FileObject::Other(object.clone().unbind()),
        })
    }

    pub fn object(&self) -> &Py<PyAny> {
        match self {
            FileObject::Socket(socket) => socket.object(),
            FileObject::Other(object) => object,
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            FileObject::Socket(socket) => socket.traverse(visit),
            FileObject::Other(object) => visit.call(object),
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            FileObject::Socket(socket) => FileObject::Socket(socket.clone_ref(py)),
            FileObject::Other(object) => FileObject::Other(object.clone_ref(py)),
        }
    }

    #[inline]
    pub fn fd(&self, py: Python<'_>) -> RawFd {
        match self {
            FileObject::Socket(socket) => socket.fd(py),
            FileObject::Other(object) => {
                let asked = object.call_method0(py, "fileno");
                asked.and_then(|fd| fd.extract(py)).unwrap_or(-1)
            }
        }
    }

    /// The fd if it can be known without running Python code.
    #[inline]
    pub fn known_fd(&self, py: Python<'_>) -> Option<RawFd> {
        match self {
            FileObject::Socket(socket) => Some(socket.fd(py)),
            FileObject::Other(_) => None,
        }
    }
}
