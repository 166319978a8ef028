//! The items of the ready queue: callbacks, and fds that became ready.

use std::collections::VecDeque;

use event_loop::Direction;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::handle::Handle;
use crate::asyncio::loop_class::fd_table::Watcher;
use crate::io::transports::base::Transport;

pub enum Item {
    Callback(Py<Handle>),
    Io(Watcher, Direction),
    /// A new transport begins to read, and its waiter is completed. True: what ran before it, which
    /// is `connection_made`, queued nothing.
    Start(Py<Transport>, Option<Py<PyAny>>, bool),
}

impl Item {
    pub fn callback(&self) -> Option<&Py<Handle>> {
        match self {
            Item::Callback(handle) => Some(handle),
            _ => None,
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Item::Callback(handle) => visit.call(handle),
            Item::Io(watcher, _) => watcher.traverse(visit),
            Item::Start(transport, waiter, _) => {
                visit.call(transport)?;
                visit.call(waiter)
            }
        }
    }
}

pub type ReadyQueue = VecDeque<Item>;
