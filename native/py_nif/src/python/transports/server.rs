//! A server knows its connections: `_attach` and `_detach` of asyncio's `Server`.
//!
//! Up to 3.12 it counts them; from 3.13 on it has a `WeakSet` of them, which takes five Python
//! frames for each connection, and none here (`bench/`: churn).

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::base::Transport;
use crate::python::weak_set;

/// What is known of the class, by its source.
struct Class {
    class: Py<PyType>,
    /// Whether it wants to know which transport it is, and keeps that in `_clients`.
    has_clients: bool,
}

impl Class {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static CLASS: PyOnceLock<Class> = PyOnceLock::new();
        CLASS.get_or_try_init(py, || {
            let class = py.import("asyncio.base_events")?.getattr("Server")?;
            let code = class.getattr("_attach")?.getattr("__code__")?;
            Ok(Class {
                has_clients: code.getattr("co_argcount")?.extract::<u32>()? > 1,
                class: class.cast_into::<PyType>()?.unbind(),
            })
        })
    }

    /// What this class does may be done here: it is not a subclass, which may do something else.
    fn is_of(&self, server: &Bound<'_, PyAny>) -> bool {
        server.get_type().is(&self.class)
    }
}

/// Before the server gets its first connection.
pub fn prepare(server: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = Class::get(server.py())?;
    match class.has_clients && class.is_of(server) {
        true => weak_set::change_natively(&server.getattr("_clients")?),
        false => Ok(()),
    }
}

pub fn attach(server: &Bound<'_, PyAny>, transport: &Bound<'_, Transport>) -> PyResult<()> {
    let py = server.py();
    let class = Class::get(py)?;
    if !class.has_clients {
        return server.call_method0(intern!(py, "_attach")).map(drop);
    }
    match open_clients(class, server)? {
        Some(clients) => clients.call_method1(intern!(py, "add"), (transport,)),
        None => server.call_method1(intern!(py, "_attach"), (transport,)),
    }
    .map(drop)
}

pub fn detach(server: &Bound<'_, PyAny>, transport: &Bound<'_, Transport>) -> PyResult<()> {
    let py = server.py();
    let class = Class::get(py)?;
    if !class.has_clients {
        return server.call_method0(intern!(py, "_detach")).map(drop);
    }
    match open_clients(class, server)? {
        Some(clients) => clients.call_method1(intern!(py, "discard"), (transport,)),
        // It may have been waited for.
        None => server.call_method1(intern!(py, "_detach"), (transport,)),
    }
    .map(drop)
}

/// The set that is all that changes while the server is open. `None`: ask the server itself.
fn open_clients<'py>(
    class: &Class,
    server: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = server.py();
    if !class.is_of(server) || server.getattr(intern!(py, "_sockets"))?.is_none() {
        return Ok(None);
    }
    server.getattr(intern!(py, "_clients")).map(Some)
}
