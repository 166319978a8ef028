//! Python's own socket objects, for our connections when a program asks for the object.

use std::os::fd::RawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

use super::open_file::OpenFile;

/// A socket created with this type records that it does not block; no call is needed.
const STREAM: libc::c_int = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;

/// `socket.socket`, as it is now.
fn class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static SOCKET: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = SOCKET.get_or_try_init(py, || py.import("socket").map(Bound::unbind))?;
    module.bind(py).getattr(intern!(py, "socket"))
}

/// The class that replaces Python's own sockets, if the program has replaced it: then every
/// connection uses it.
pub fn replaced(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static ORIGINAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let original = ORIGINAL.get_or_try_init(py, || {
        let module = py.import("erlang_loop.loop.io.connecting")?;
        module.getattr("_SOCKET").map(Bound::unbind)
    })?;
    let now = class(py)?;
    Ok((!now.is(original)).then_some(now))
}

/// The object for an open stream. The fd has two owners then: one must release it.
pub fn of_fd(py: Python<'_>, fd: RawFd) -> PyResult<Bound<'_, PyAny>> {
    // The kernel supplies the family and the protocol.
    class(py)?.call1((-1, STREAM, -1, fd))
}

/// As [`of_fd`]; the object becomes the owner.
pub fn of_file(py: Python<'_>, file: OpenFile) -> PyResult<Bound<'_, PyAny>> {
    let object = of_fd(py, file.fd(py))?;
    file.into_raw();
    Ok(object)
}

/// As a socket of this family is after `close()`.
pub fn closed(py: Python<'_>, family: libc::c_int) -> PyResult<Bound<'_, PyAny>> {
    let socket = class(py)?.call1((family, STREAM))?;
    socket.call_method0("close")?;
    Ok(socket)
}
