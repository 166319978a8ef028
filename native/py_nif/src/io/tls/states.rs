//! asyncio's states of a TLS connection, and exceptions that are not errors.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

use super::TlsPath;

/// `asyncio.sslproto.SSLProtocolState`, whose members are compared by identity.
pub struct States {
    pub do_handshake: Py<PyAny>,
    pub wrapped: Py<PyAny>,
    pub flushing: Py<PyAny>,
    pub shutdown: Py<PyAny>,
}

pub fn states(py: Python<'_>) -> PyResult<&States> {
    static STATES: PyOnceLock<States> = PyOnceLock::new();
    STATES.get_or_try_init(py, || {
        let all = py.import("asyncio.sslproto")?.getattr("SSLProtocolState")?;
        let state = |name: &str| all.getattr(name).map(Bound::unbind);
        Ok(States {
            do_handshake: state("DO_HANDSHAKE")?,
            wrapped: state("WRAPPED")?,
            flushing: state("FLUSHING")?,
            shutdown: state("SHUTDOWN")?,
        })
    })
}

/// Whether the connection is in this state.
pub fn is_in(protocol: &Bound<'_, TlsPath>, state: &Py<PyAny>) -> PyResult<bool> {
    let now = protocol.getattr(intern!(protocol.py(), "_state"))?;
    Ok(now.is(state))
}

/// An attribute of asyncio's that is a bool.
pub fn is_set(protocol: &Bound<'_, TlsPath>, name: &Bound<'_, PyString>) -> PyResult<bool> {
    protocol.getattr(name)?.is_truthy()
}

/// An attribute of asyncio's that is a number of bytes.
pub fn size(protocol: &Bound<'_, TlsPath>, name: &Bound<'_, PyString>) -> PyResult<usize> {
    protocol.getattr(name)?.extract()
}

/// Whether OpenSSL only says that it needs more bytes: `asyncio.sslproto.SSLAgainErrors`.
pub fn wants_more(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    static WANT_READ: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static SYSCALL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(
        error.is_instance(py, WANT_READ.import(py, "ssl", "SSLWantReadError")?)
            || error.is_instance(py, SYSCALL.import(py, "ssl", "SSLSyscallError")?),
    )
}

/// `pending` of an `ssl.MemoryBIO`: the number of bytes in it.
pub fn pending(bio: &Bound<'_, PyAny>) -> PyResult<usize> {
    bio.getattr(intern!(bio.py(), "pending"))?.extract()
}

/// Calls `protocol._fatal_error`, except for exceptions that end the program.
pub fn failed(protocol: &Bound<'_, TlsPath>, error: PyErr) -> PyResult<()> {
    let py = protocol.py();
    if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
        return Err(error);
    }
    let arguments = (error.into_value(py), "Fatal error on SSL protocol");
    protocol.call_method1("_fatal_error", arguments).map(drop)
}
