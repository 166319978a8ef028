//! Python's own socket objects, for connections of ours that a program wants to see as such.

use std::os::fd::RawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

use super::open_file::OpenFile;
use crate::python::module_attribute::module_attribute;

/// A socket made with this type knows that it does not block; no call is needed.
const STREAM: libc::c_int = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;

/// `socket.socket`, as the program has it now.
fn class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static SOCKET: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = SOCKET.get_or_try_init(py, || py.import("socket").map(Bound::unbind))?;
    module_attribute(module.bind(py), intern!(py, "socket"))
}

/// The class in the place of Python's own sockets, if the program has put one there: then it is
/// to be used for every connection.
pub fn replaced(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static ORIGINAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let original = ORIGINAL.get_or_try_init(py, || {
        let module = py.import("erlang_loop.connecting")?;
        module.getattr("_SOCKET").map(Bound::unbind)
    })?;
    let now = class(py)?;
    Ok((!now.is(original)).then_some(now))
}

/// The object that stands for an open stream. The fd has two owners then: one must give it up.
pub fn of_fd(py: Python<'_>, fd: RawFd) -> PyResult<Bound<'_, PyAny>> {
    // The family and the protocol are asked of the kernel.
    class(py)?.call1((-1, STREAM, -1, fd))
}

/// As [`of_fd`]; the object is the owner from now on.
pub fn of_file(py: Python<'_>, file: OpenFile) -> PyResult<Bound<'_, PyAny>> {
    let object = of_fd(py, file.fd(py))?;
    file.give_up();
    Ok(object)
}

/// As a socket of this family looks after `close()`.
pub fn closed(py: Python<'_>, family: libc::c_int) -> PyResult<Bound<'_, PyAny>> {
    let socket = class(py)?.call1((family, STREAM))?;
    socket.call_method0("close")?;
    Ok(socket)
}
