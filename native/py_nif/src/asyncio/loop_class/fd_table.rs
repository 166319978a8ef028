//! The watchers of a loop's fds: a callback of `add_reader` or `add_writer`, a transport, or one
//! operation of `loop.sock_recv` and similar methods.

use std::os::fd::RawFd;

use event_loop::{Direction, Ready};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use rustc_hash::FxHashMap;

use crate::asyncio::handles::handle::Handle;
use crate::asyncio::handles::io_object::IoObject;
use crate::asyncio::handles::ready::{Item, ReadyQueue};

pub enum Watcher {
    Callback(Py<Handle>),
    Io(IoObject),
}

impl Watcher {
    fn item(&self, py: Python<'_>, direction: Direction) -> Item {
        match self {
            Watcher::Callback(handle) => Item::Callback(handle.clone_ref(py)),
            Watcher::Io(object) => Item::Io(object.clone_ref(py), direction),
        }
    }

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Watcher::Callback(handle) => visit.call(handle),
            Watcher::Io(object) => object.traverse(visit),
        }
    }
}

/// A watcher and the file it was registered with, if that was not a number: the file lives as long
/// as it is watched, and is recognised after it was closed and has no number any more.
pub struct Watched {
    pub by: Watcher,
    file: Option<Py<PyAny>>,
}

impl Watched {
    pub fn callback(handle: Py<Handle>, file: &Bound<'_, PyAny>) -> Self {
        let file = (!file.is_instance_of::<PyInt>()).then(|| file.clone().unbind());
        Watched {
            by: Watcher::Callback(handle),
            file,
        }
    }

    /// Drops it at once. Outside PyO3's own calls (`fast_method`), `drop` defers that to the next
    /// one of them.
    pub fn drop_ref(self, py: Python<'_>) {
        match self.by {
            Watcher::Callback(handle) => handle.drop_ref(py),
            Watcher::Io(object) => object.into_object().drop_ref(py),
        }
        if let Some(file) = self.file {
            file.drop_ref(py);
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.by.traverse(visit)?;
        visit.call(&self.file)
    }
}

impl From<IoObject> for Watched {
    fn from(object: IoObject) -> Self {
        Watched {
            by: Watcher::Io(object),
            file: None,
        }
    }
}

#[derive(Default)]
struct Slot {
    reader: Option<Watched>,
    writer: Option<Watched>,
}

impl Slot {
    fn side(&self, direction: Direction) -> Option<&Watched> {
        match direction {
            Direction::Read => self.reader.as_ref(),
            Direction::Write => self.writer.as_ref(),
        }
    }

    fn side_mut(&mut self, direction: Direction) -> &mut Option<Watched> {
        match direction {
            Direction::Read => &mut self.reader,
            Direction::Write => &mut self.writer,
        }
    }

    fn sides(&self) -> impl Iterator<Item = &Watched> {
        [&self.reader, &self.writer].into_iter().flatten()
    }

    fn is_empty(&self) -> bool {
        self.sides().next().is_none()
    }

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for watched in [&self.reader, &self.writer].into_iter().flatten() {
            watched.traverse(visit)?;
        }
        Ok(())
    }
}

/// By fd. Numbers are dense in a process but not in a loop, so this is not an array: with many
/// loops, each would take memory for all fds.
#[derive(Default)]
pub struct FdTable(FxHashMap<u64, Slot>);

impl FdTable {
    /// Returns the previous watcher.
    pub fn put(&mut self, fd: RawFd, direction: Direction, watched: Watched) -> Option<Watched> {
        let slot = self.0.entry(key(fd)?).or_default();
        slot.side_mut(direction).replace(watched)
    }

    pub fn take(&mut self, fd: RawFd, direction: Direction) -> Option<Watched> {
        let key = key(fd)?;
        let slot = self.0.get_mut(&key)?;
        let taken = slot.side_mut(direction).take();
        if slot.is_empty() {
            self.0.remove(&key);
        }
        taken
    }

    /// Queues what an event calls for.
    pub fn ready(&self, py: Python<'_>, event: &Ready, queue: &mut ReadyQueue) {
        let Some(slot) = self.slot(event.fd) else {
            return;
        };
        if let (Some(_), Some(reader)) = (event.read, &slot.reader) {
            queue.push_back(reader.by.item(py, Direction::Read));
        }
        if let (Some(_), Some(writer)) = (event.write, &slot.writer) {
            queue.push_back(writer.by.item(py, Direction::Write));
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.values().try_for_each(|slot| slot.traverse(visit))
    }

    /// The number that a file had when it was first watched.
    pub fn number_of(&self, file: &Bound<'_, PyAny>) -> Option<RawFd> {
        let is_it = |one: &Watched| one.file.as_ref().is_some_and(|known| known.is(file));
        let mut slots = self.slots();
        slots.find_map(|(fd, slot)| slot.sides().any(is_it).then_some(fd))
    }

    /// The callback of an fd; a transport has none.
    pub fn handle(&self, py: Python<'_>, fd: RawFd, direction: Direction) -> Option<Py<Handle>> {
        match &self.slot(fd)?.side(direction)?.by {
            Watcher::Callback(handle) => Some(handle.clone_ref(py)),
            _ => None,
        }
    }

    /// The watched fds, in ascending order.
    pub fn fds(&self) -> Vec<RawFd> {
        let mut fds: Vec<RawFd> = self.slots().map(|(fd, _)| fd).collect();
        fds.sort_unstable();
        fds
    }

    fn slot(&self, fd: RawFd) -> Option<&Slot> {
        self.0.get(&key(fd)?)
    }

    fn slots(&self) -> impl Iterator<Item = (RawFd, &Slot)> {
        let fd = |key: &u64| RawFd::try_from(*key).ok();
        self.0
            .iter()
            .filter_map(move |(key, slot)| Some((fd(key)?, slot)))
    }
}

/// `None`: not an fd, so the table cannot contain it.
fn key(fd: RawFd) -> Option<u64> {
    u64::try_from(fd).ok()
}
