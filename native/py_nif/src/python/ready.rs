//! What waits for its turn: callbacks, and fds that became ready.

use std::collections::VecDeque;

use event_loop::Direction;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::fd_callbacks::Watcher;
use super::handle::Handle;
use super::transports::StreamTransport;

pub enum Item {
    Callback(Py<Handle>),
    Io(Watcher, Direction),
    /// A new stream begins to read; its waiter is told.
    Start(Py<StreamTransport>, Option<Py<PyAny>>),
}

impl Item {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Item::Callback(handle) => visit.call(handle),
            Item::Io(watcher, _) => watcher.traverse(visit),
            Item::Start(stream, waiter) => {
                visit.call(stream)?;
                visit.call(waiter)
            }
        }
    }
}

pub type ReadyQueue = VecDeque<Item>;
