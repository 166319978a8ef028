//! How a transport begins: `connection_made`, then reading, then whoever waits for it.

use event_loop::Direction;
use pyo3::intern;
use pyo3::prelude::*;

use super::base::Transport;
use super::kind::Kind;
use super::protocol::complete;
use super::server;
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
            if let Err(error) = server::attach(server.bind(py), slf) {
                // It was closed meanwhile and does not know this transport, nor does anybody.
                drop(this.server.take(py));
                if let Some(file) = this.file.take(py) {
                    file.close(py)?;
                }
                return Err(error);
            }
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
            .push_item(py, Item::Start(slf.clone().unbind(), waiter, false));
        Ok(())
    }

    /// The second step of the beginning, after `connection_made`. Whoever waits for it is told
    /// in any case: that the fd cannot be watched is an error of its own. `alone`: `connection_made`
    /// queued nothing that has to run before data comes, as it would on asyncio.
    pub fn start(
        slf: &Bound<'_, Self>,
        waiter: Option<&Bound<'_, PyAny>>,
        alone: bool,
    ) -> PyResult<()> {
        let watched = match Self::reads_at_start(slf)? {
            true => Self::watch_again(slf, Direction::Read),
            false => Ok(()),
        };
        if waiter.is_none() && alone && slf.get().kind == Kind::Stream && watched.is_ok() {
            // Nobody waits for this connection, so nothing comes between it and its data. What a
            // client sends first is mostly there by now: one turn less for each connection
            // (`bench/`: churn while busy).
            Self::ready(slf, Direction::Read)?;
            return Ok(());
        }
        slf.get().owner(slf.py())?.get().look_next(slf.py());
        waiter.map_or(Ok(()), complete)?;
        watched
    }
}
