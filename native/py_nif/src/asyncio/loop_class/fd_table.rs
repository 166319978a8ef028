//! What a loop knows of each fd: its watcher (a callback of `add_reader` or `add_writer`, a
//! transport, or one operation of `loop.sock_recv` and similar methods), and the transport that
//! owns it without watching it.

use std::os::fd::RawFd;

use event_loop::{Direction, Ready};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyWeakrefMethods, PyWeakrefReference};
use rustc_hash::FxHashMap;

use crate::asyncio::handles::handle::Handle;
use crate::asyncio::handles::ready::{Item, ReadyQueue};
use crate::io::sock_operation::SockOperation;
use crate::io::transports::base::Transport;

pub enum Watcher {
    Callback(Py<Handle>),
    Transport(Py<Transport>),
    Operation(Py<SockOperation>),
}

impl Watcher {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Watcher::Callback(handle) => Watcher::Callback(handle.clone_ref(py)),
            Watcher::Transport(transport) => Watcher::Transport(transport.clone_ref(py)),
            Watcher::Operation(operation) => Watcher::Operation(operation.clone_ref(py)),
        }
    }

    fn item(&self, py: Python<'_>, direction: Direction) -> Item {
        match self {
            Watcher::Callback(handle) => Item::Callback(handle.clone_ref(py)),
            other => Item::Io(other.clone_ref(py), direction),
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Watcher::Callback(handle) => visit.call(handle),
            Watcher::Transport(transport) => visit.call(transport),
            Watcher::Operation(operation) => visit.call(operation),
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
            Watcher::Transport(transport) => transport.drop_ref(py),
            Watcher::Operation(operation) => operation.drop_ref(py),
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

impl From<Watcher> for Watched {
    fn from(by: Watcher) -> Self {
        Watched { by, file: None }
    }
}

#[derive(Default)]
struct Slot {
    reader: Option<Watched>,
    writer: Option<Watched>,
    /// A transport that does not watch its fd. asyncio checks it, so that no other code reads from
    /// the fd. It has no callback for its death: the next transport with this number replaces it.
    transport: Option<Py<PyWeakrefReference>>,
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

    fn is_watched(&self) -> bool {
        self.sides().next().is_some()
    }

    fn is_empty(&self) -> bool {
        !self.is_watched() && self.transport.is_none()
    }

    fn watching_transport(&self, py: Python<'_>) -> Option<Py<Transport>> {
        self.sides()
            .find_map(|side| match &side.by {
                Watcher::Transport(transport) => Some(transport),
                _ => None,
            })
            .filter(|transport| {
                let transport = transport.get();
                transport.kind.is_socket() && transport.listed.get(py)
            })
            .map(|transport| transport.clone_ref(py))
    }

    fn transport(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let listed = self.transport.as_ref();
        match listed.and_then(|weak| weak.bind(py).upgrade()) {
            Some(listed) => Some(listed.unbind()),
            None => self.watching_transport(py).map(Py::into_any),
        }
    }

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for watched in [&self.reader, &self.writer].into_iter().flatten() {
            watched.traverse(visit)?;
        }
        visit.call(&self.transport)
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

    /// Lists a transport that does not watch its fd. Returns the one that was listed before.
    pub fn list(
        &mut self,
        fd: RawFd,
        transport: Py<PyWeakrefReference>,
    ) -> Option<Py<PyWeakrefReference>> {
        let slot = self.0.entry(key(fd)?).or_default();
        slot.transport.replace(transport)
    }

    pub fn unlist(&mut self, fd: RawFd) -> Option<Py<PyWeakrefReference>> {
        let key = key(fd)?;
        let slot = self.0.get_mut(&key)?;
        let taken = slot.transport.take();
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

    /// The socket transport that owns an fd.
    pub fn transport(&self, py: Python<'_>, fd: RawFd) -> Option<Py<PyAny>> {
        self.slot(fd)?.transport(py)
    }

    /// The transport that watches the fd.
    pub fn watching_transport(&self, py: Python<'_>, fd: RawFd) -> Option<Py<Transport>> {
        self.slot(fd)?.watching_transport(py)
    }

    /// All socket transports, with their fds.
    pub fn transports(&self, py: Python<'_>) -> Vec<(RawFd, Py<PyAny>)> {
        let transports = self.slots();
        transports
            .filter_map(|(fd, slot)| Some((fd, slot.transport(py)?)))
            .collect()
    }

    /// The watched fds, in ascending order.
    pub fn fds(&self) -> Vec<RawFd> {
        let watched = self.slots().filter(|(_, slot)| slot.is_watched());
        let mut fds: Vec<RawFd> = watched.map(|(fd, _)| fd).collect();
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
