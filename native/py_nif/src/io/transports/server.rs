//! A server counts its connections: `_attach` and `_detach` of asyncio's `Server`, which from
//! Python 3.13 on takes the transport.

use pyo3::intern;
use pyo3::prelude::*;

use super::base::Transport;

pub fn attach(server: &Bound<'_, PyAny>, transport: &Bound<'_, Transport>) -> PyResult<()> {
    call(server, intern!(server.py(), "_attach"), transport)
}

pub fn detach(server: &Bound<'_, PyAny>, transport: &Bound<'_, Transport>) -> PyResult<()> {
    call(server, intern!(server.py(), "_detach"), transport)
}

#[cfg(Py_3_13)]
fn call(
    server: &Bound<'_, PyAny>,
    method: &Bound<'_, pyo3::types::PyString>,
    transport: &Bound<'_, Transport>,
) -> PyResult<()> {
    server.call_method1(method, (transport,)).map(drop)
}

#[cfg(not(Py_3_13))]
fn call(
    server: &Bound<'_, PyAny>,
    method: &Bound<'_, pyo3::types::PyString>,
    _transport: &Bound<'_, Transport>,
) -> PyResult<()> {
    server.call_method0(method).map(drop)
}
