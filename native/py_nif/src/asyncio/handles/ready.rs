//! The items of the ready queue: callbacks, and fds that became ready.

use std::collections::VecDeque;

use event_loop::Direction;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::handle::Handle;
use super::io_object::{IoObject, RunOnce};

pub enum Item {
    Callback(Py<Handle>),
    Io(IoObject, Direction),
    Once(Box<dyn RunOnce>),
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
            Item::Io(object, _) => object.traverse(visit),
            Item::Once(step) => step.traverse(visit),
        }
    }
}

pub type ReadyQueue = VecDeque<Item>;
