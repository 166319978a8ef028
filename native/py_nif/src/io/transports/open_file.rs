//! The file behind a transport's fd, while it is open.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::cpython::method_calls::call0;

pub enum OpenFile {
    /// A socket that we opened, and that has no Python object yet: most never get one.
    Own(OwnedFd),
    Object(FileObject),
}

/// A Python socket (or another file), and its fd as the object itself reports it: -1 after
/// `close()`.
///
/// The number of a closed fd may belong to another file by now, so it is read before every use; for
/// sockets of the standard library that is one load.
pub struct FileObject {
    object: Py<PyAny>,
    is_socket: bool,
}

/// The beginning of CPython's `PySocketSockObject`; unchanged since Python 2.
#[repr(C)]
struct SocketObject {
    head: ffi::PyObject,
    fd: libc::c_int,
}

impl OpenFile {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        FileObject::new(object).map(OpenFile::Object)
    }

    /// A descriptor that was just opened, and has no other owner.
    pub fn own(fd: RawFd) -> Self {
        // SAFETY: `accept` or `socket` has just returned it, and the caller passes its ownership.
        OpenFile::Own(unsafe { OwnedFd::from_raw_fd(fd) })
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
    pub fn give_up(self) {
        if let OpenFile::Own(fd) = self {
            let _ = fd.into_raw_fd();
        }
    }

    pub fn close(self, py: Python<'_>) -> PyResult<()> {
        match self {
            // Whatever `close` returns, it is closed.
            OpenFile::Own(fd) => drop(fd),
            OpenFile::Object(file) => drop(call0(file.object.bind(py), intern!(py, "close"))?),
        }
        Ok(())
    }
}

impl FileObject {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        static SOCKET: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let class = SOCKET.import(object.py(), "_socket", "socket")?;
        Ok(FileObject {
            object: object.clone().unbind(),
            // Checks the type, not `isinstance`: a mock may claim to be a socket, and `known_fd`
            // would read the memory of something else.
            is_socket: object.get_type().is_subclass(class)?,
        })
    }

    pub fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        FileObject {
            object: self.object.clone_ref(py),
            is_socket: self.is_socket,
        }
    }

    #[inline]
    pub fn fd(&self, py: Python<'_>) -> RawFd {
        if let Some(fd) = self.known_fd(py) {
            return fd;
        }
        let asked = self.object.call_method0(py, "fileno");
        asked.and_then(|fd| fd.extract(py)).unwrap_or(-1)
    }

    /// The fd if it can be known without running Python code.
    #[inline]
    pub fn known_fd(&self, _py: Python<'_>) -> Option<RawFd> {
        if !self.is_socket {
            return None;
        }
        // SAFETY: attached, and an instance of `_socket.socket` begins like this.
        Some(unsafe { (*self.object.as_ptr().cast::<SocketObject>()).fd })
    }
}
