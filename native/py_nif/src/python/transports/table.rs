//! Which transport an fd has: asyncio asks, so that nobody else reads from it.
//!
//! Weakly, and without a callback for each that dies: a number that is used again overwrites its
//! place.

use std::os::fd::RawFd;

use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

#[derive(Default)]
pub struct TransportTable(Vec<Option<Py<PyWeakrefReference>>>);

impl TransportTable {
    /// What was there before, to be let go of outside of the loop's cell.
    pub fn put(
        &mut self,
        fd: RawFd,
        transport: Py<PyWeakrefReference>,
    ) -> Option<Py<PyWeakrefReference>> {
        let index = usize::try_from(fd).ok()?;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index].replace(transport)
    }

    pub fn get(&self, py: Python<'_>, fd: RawFd) -> Option<Py<PyAny>> {
        let place = self.0.get(usize::try_from(fd).ok()?)?.as_ref()?;
        Some(place.bind(py).upgrade()?.unbind())
    }

    pub fn take(&mut self, fd: RawFd) -> Option<Py<PyWeakrefReference>> {
        self.0.get_mut(usize::try_from(fd).ok()?)?.take()
    }

    /// All that live, with their fds.
    pub fn all(&self, py: Python<'_>) -> Vec<(RawFd, Py<PyAny>)> {
        (0..self.0.len() as RawFd)
            .filter_map(|fd| Some((fd, self.get(py, fd)?)))
            .collect()
    }
}
