//! What waits for its turn: callbacks, and fds that became ready.

use std::collections::VecDeque;

use event_loop::Direction;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::fd_callbacks::Watcher;
use super::handle::Handle;
use super::transports::Transport;

pub enum Item {
    Callback(Py<Handle>),
    Io(Watcher, Direction),
    /// A new transport begins to read; its waiter is told. True: what ran before it, which is
    /// `connection_made`, queued nothing.
    Start(Py<Transport>, Option<Py<PyAny>>, bool),
}

impl Item {
    pub fn callback(&self) -> Option<&Py<Handle>> {
        match self {
            Item::Callback(handle) => Some(handle),
            _ => None,
        }
    }

    /// For the collector; handles are the business of `loop_traverse`.
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Item::Callback(_) => Ok(()),
            Item::Io(watcher, _) => watcher.traverse(visit),
            Item::Start(transport, waiter, _) => {
                visit.call(transport)?;
                visit.call(waiter)
            }
        }
    }
}

pub type ReadyQueue = VecDeque<Item>;
