//! The fd of a socket object of the standard library, without a call.
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The beginning of CPython's `PySocketSockObject`; unchanged since Python 2.
#[repr(C)]
struct SocketFields {
    head: ffi::PyObject,
    fd: libc::c_int,
}

/// An instance of `_socket.socket`.
pub struct SocketObject(Py<PyAny>);

impl SocketObject {
    /// `None`: something else. Checks the type, not `isinstance`: a mock may claim to be a socket,
    /// and [`fd`](Self::fd) would read the memory of something else.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        static SOCKET: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let class = SOCKET.import(object.py(), "_socket", "socket")?;
        let is_socket = object.get_type().is_subclass(class)?;
        Ok(is_socket.then(|| SocketObject(object.clone().unbind())))
    }

    /// -1 after `close()`.
    #[inline]
    pub fn fd(&self, _py: Python<'_>) -> RawFd {
        // SAFETY: attached, and an instance of `_socket.socket` begins like this.
        unsafe { (*self.0.as_ptr().cast::<SocketFields>()).fd }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        SocketObject(self.0.clone_ref(py))
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }

    pub fn object(&self) -> &Py<PyAny> {
        &self.0
    }
}
