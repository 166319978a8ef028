//! asyncio's names for the states of a TLS connection, and the errors that are none.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::attributes::TlsPath;

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
pub fn is_in(protocol: &Bound<'_, TlsPath>, state: &Py<PyAny>) -> bool {
    let now = &protocol.get().state;
    now.look(protocol.py(), |now| now.is_some_and(|now| now.is(state)))
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

/// `pending` of a `ssl.MemoryBIO`: the bytes in it.
pub fn pending(bio: &Bound<'_, PyAny>) -> PyResult<usize> {
    bio.getattr(intern!(bio.py(), "pending"))?.extract()
}

/// `protocol._fatal_error`, for what is not the end of the program.
pub fn failed(protocol: &Bound<'_, TlsPath>, error: PyErr) -> PyResult<()> {
    let py = protocol.py();
    if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
        return Err(error);
    }
    let arguments = (error.into_value(py), "Fatal error on SSL protocol");
    protocol.call_method1("_fatal_error", arguments).map(drop)
}
