//! How a transport begins: `connection_made`, then reading, then completing its waiter.

use event_loop::Direction;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use super::base::Transport;
use super::server;
use crate::asyncio::handles::io_object::RunOnce;
use crate::asyncio::handles::ready::Item;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::turn::item;
use crate::cpython::method_calls::complete;

impl Transport {
    /// Registers a new transport with its server and loop, and schedules its beginning.
    pub fn begin(slf: &Bound<'_, Self>, waiter: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner(py)?;
        if let Some(server) = this.server.cloned(py)
            && let Err(error) = server::attach(server.bind(py), slf)
        {
            // The server was closed meanwhile and has not registered this transport.
            drop(this.server.take(py));
            if let Some(file) = this.file.take(py) {
                file.close(py)?;
            }
            return Err(error);
        }
        if this.kind.is_socket() {
            owner.get()._put_transport(this.fd, slf.as_any())?;
        }
        if let Some(protocol) = this.protocol.cloned(py) {
            let made = protocol.bind(py).getattr(intern!(py, "connection_made"))?;
            this.enqueue(made, slf.clone().into_any())?;
        }
        drop(this.read_context.replace(py, Some(this.new_context(py)?)));
        let start = Start {
            transport: slf.clone().into_any().unbind(),
            waiter: waiter.map(|waiter| waiter.clone().unbind()),
        };
        owner.get().push_item(py, Item::Once(Box::new(start)));
        Ok(())
    }

    /// The second step of the beginning, after `connection_made`. The waiter is completed in any
    /// case: if the fd cannot be watched, that is a separate error.
    fn start(slf: &Bound<'_, Self>, waiter: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let watched = match Self::reads_at_start(slf)? {
            true => Self::watch_again(slf, Direction::Read),
            false => Ok(()),
        };
        waiter.map_or(Ok(()), complete)?;
        watched
    }
}

/// A new transport begins to read, and its waiter is completed.
struct Start {
    transport: Py<PyAny>,
    waiter: Option<Py<PyAny>>,
}

impl RunOnce for Start {
    fn run(self: Box<Self>, event_loop: &Bound<'_, Loop>) -> PyResult<()> {
        let py = event_loop.py();
        let transport = self.transport.into_bound(py);
        let transport = transport.cast::<Transport>()?;
        let waiter = self.waiter.map(|waiter| waiter.into_bound(py));
        item::run_as_callback(event_loop, transport, || {
            Transport::start(transport, waiter.as_ref())
        })
    }

    fn source(&self) -> &Py<PyAny> {
        &self.transport
    }

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.transport)?;
        visit.call(&self.waiter)
    }
}
