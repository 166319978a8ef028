//! How a transport begins: `connection_made`, then reading, then whoever waits for it.

use event_loop::Direction;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use super::base::Transport;
use super::kind::Kind;
use super::protocol::complete;
use crate::python::arguments::Arguments;
use crate::python::context;
use crate::python::loop_class::Loop;
use crate::python::ready::Item;

impl Transport {
    /// Makes a new transport known to its server and loop, and schedules its beginning.
    pub fn begin(slf: &Bound<'_, Self>, waiter: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner(py)?;
        if let Some(server) = this.server.cloned(py) {
            attach(server.bind(py), intern!(py, "_attach"), slf)?;
        }
        if this.kind.is_socket() {
            Self::list(slf)?;
        }
        if let Some(protocol) = this.protocol.cloned(py) {
            let made = protocol.bind(py).getattr(intern!(py, "connection_made"))?;
            let transport = slf.clone().into_any();
            Loop::enqueue(&owner, made, Arguments::one(transport)?)?;
        }
        drop(
            this.read_context
                .replace(py, Some(context::copy_current(py)?)),
        );
        let waiter = waiter.map(|waiter| waiter.clone().unbind());
        owner
            .get()
            .push_item(py, Item::Start(slf.clone().unbind(), waiter));
        Ok(())
    }

    /// The second step of the beginning, after `connection_made`. Whoever waits for it is told
    /// in any case: that the fd cannot be watched is an error of its own.
    pub fn start(slf: &Bound<'_, Self>, waiter: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let watched = match Self::reads_at_start(slf)? {
            true => Self::watch_again(slf, Direction::Read),
            false => Ok(()),
        };
        match waiter {
            Some(waiter) => complete(waiter)?,
            // Nobody waits for this connection, so nothing comes between it and its data. What a
            // client sends first is mostly there by now: one turn less for each connection
            // (`bench/`: churn while busy).
            None if slf.get().kind == Kind::Stream && watched.is_ok() => {
                Self::ready(slf, Direction::Read)?;
            }
            None => {}
        }
        watched
    }
}

/// `server._attach()` or `_detach()`; newer Pythons want to know which transport.
pub fn attach(
    server: &Bound<'_, PyAny>,
    method: &Bound<'_, PyString>,
    transport: &Bound<'_, Transport>,
) -> PyResult<()> {
    static WANTS_TRANSPORT: PyOnceLock<bool> = PyOnceLock::new();
    let py = server.py();
    let wants = WANTS_TRANSPORT.get_or_try_init(py, || -> PyResult<bool> {
        let server = py.import("asyncio.base_events")?.getattr("Server")?;
        let code = server.getattr("_attach")?.getattr("__code__")?;
        Ok(code.getattr("co_argcount")?.extract::<u32>()? > 1)
    })?;
    match wants {
        true => server.call_method1(method, (transport,)).map(drop),
        false => server.call_method0(method).map(drop),
    }
}
