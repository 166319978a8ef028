//! The transports of a loop by fd, for `loop._transports`. asyncio checks it, so that no other code
//! reads from the fd. It does not keep them alive.

use std::os::fd::RawFd;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use rustc_hash::FxHashMap;

/// The references have no callbacks: the entry of a transport that was dropped without being closed
/// stays until another one has its fd.
#[derive(Default)]
pub struct Transports(FxHashMap<RawFd, Py<PyWeakrefReference>>);

type Reference = Py<PyWeakrefReference>;

impl Transports {
    /// Returns the previous one.
    pub fn put(&mut self, fd: RawFd, transport: Reference) -> Option<Reference> {
        self.0.insert(fd, transport)
    }

    pub fn take(&mut self, fd: RawFd) -> Option<Reference> {
        self.0.remove(&fd)
    }

    pub fn get(&self, py: Python<'_>, fd: RawFd) -> Option<Py<PyAny>> {
        self.0.get(&fd)?.bind(py).upgrade().map(Bound::unbind)
    }

    /// All that are alive, with their fds.
    pub fn all(&self, py: Python<'_>) -> Vec<(RawFd, Py<PyAny>)> {
        let alive = |(fd, weak): (&RawFd, &Reference)| {
            let transport = weak.bind(py).upgrade()?;
            Some((*fd, transport.unbind()))
        };
        self.0.iter().filter_map(alive).collect()
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.values().try_for_each(|weak| visit.call(weak))
    }
}
