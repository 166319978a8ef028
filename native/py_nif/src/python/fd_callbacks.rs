//! Who is told about an fd: a callback of `add_reader` or `add_writer`, a transport, or one
//! operation of `loop.sock_recv` and its like.

use std::os::fd::RawFd;

use event_loop::{Direction, Mode, Ready};
use pyo3::exceptions::{PyAttributeError, PyOSError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use super::handle::{Call, Handle};
use super::loop_class::Loop;
use super::ready::{Item, ReadyQueue};
use super::sock_operation::SockOperation;
use super::transports::Transport;

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

/// A watcher and the file it was given for, if that was not a number: it lives as long as it is
/// watched, and is known when it was closed and has no number any more.
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
}

impl Slot {
    fn direction(&mut self, direction: Direction) -> &mut Option<Watched> {
        match direction {
            Direction::Read => &mut self.reader,
            Direction::Write => &mut self.writer,
        }
    }

    fn sides(&self) -> impl Iterator<Item = &Watched> {
        [&self.reader, &self.writer].into_iter().flatten()
    }

    fn transport(&self, py: Python<'_>) -> Option<Py<Transport>> {
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
}

/// By fd number: those are small and dense.
#[derive(Default)]
pub struct FdTable(Vec<Slot>);

impl FdTable {
    pub fn put(&mut self, fd: RawFd, direction: Direction, watched: Watched) -> Option<Watched> {
        let index = fd as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Slot::default);
        }
        self.0[index].direction(direction).replace(watched)
    }

    pub fn take(&mut self, fd: RawFd, direction: Direction) -> Option<Watched> {
        let slot = self.0.get_mut(usize::try_from(fd).ok()?)?;
        slot.direction(direction).take()
    }

    /// Queues what an event asks for.
    pub fn ready(&self, py: Python<'_>, event: &Ready, queue: &mut ReadyQueue) {
        let Some(slot) = self.0.get(event.fd as usize) else {
            return;
        };
        if let (Some(_), Some(reader)) = (event.read, &slot.reader) {
            queue.push_back(reader.by.item(py, Direction::Read));
        }
        if let (Some(_), Some(writer)) = (event.write, &slot.writer) {
            queue.push_back(writer.by.item(py, Direction::Write));
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Watched> {
        self.0.iter().flat_map(Slot::sides)
    }

    /// The number a file had when it was first watched.
    fn number_of(&self, file: &Bound<'_, PyAny>) -> Option<RawFd> {
        let is_it = |one: &Watched| one.file.as_ref().is_some_and(|known| known.is(file));
        let index = self.0.iter().position(|slot| slot.sides().any(is_it))?;
        RawFd::try_from(index).ok()
    }

    /// The callback of an fd; a transport has none.
    pub fn handle(&self, py: Python<'_>, fd: RawFd, direction: Direction) -> Option<Py<Handle>> {
        let slot = self.0.get(usize::try_from(fd).ok()?)?;
        let side = match direction {
            Direction::Read => &slot.reader,
            Direction::Write => &slot.writer,
        };
        match &side.as_ref()?.by {
            Watcher::Callback(handle) => Some(handle.clone_ref(py)),
            _ => None,
        }
    }

    /// The transport over a socket that watches the fd.
    pub fn transport(&self, py: Python<'_>, fd: RawFd) -> Option<Py<Transport>> {
        self.0.get(usize::try_from(fd).ok()?)?.transport(py)
    }

    /// All of them, with their fds.
    pub fn transports(&self, py: Python<'_>) -> Vec<(RawFd, Py<PyAny>)> {
        let slots = self.0.iter().enumerate();
        slots
            .filter_map(|(fd, slot)| Some((fd as RawFd, slot.transport(py)?.into_any())))
            .collect()
    }

    pub fn fds(&self) -> Vec<RawFd> {
        (0..self.0.len())
            .filter(|&index| self.0[index].sides().next().is_some())
            .map(|index| index as RawFd)
            .collect()
    }
}

/// An fd from a number or from an object with `fileno()`, as `selectors` accepts them.
pub fn fileno(file: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    let py = file.py();
    let fd = match file.is_instance_of::<PyInt>() {
        true => file.extract()?,
        false => file
            .call_method0(intern!(py, "fileno"))
            .and_then(|number| number.extract())
            .or_else(|error| match is_no_file(py, &error) {
                true => {
                    let text = format!("Invalid file object: {}", file.repr()?);
                    Err(PyValueError::new_err(text))
                }
                false => Err(error),
            })?,
    };
    match fd {
        0.. => Ok(fd),
        _ => Err(PyValueError::new_err(format!(
            "Invalid file descriptor: {fd}"
        ))),
    }
}

/// As [`fileno`]. A file that was closed while it was watched has the number it had.
pub fn known_fileno(event_loop: &Loop, file: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    let py = file.py();
    fileno(file).or_else(|error| {
        let known = event_loop.fds.with(py, |fds| fds.number_of(file));
        known.ok_or(error)
    })
}

fn is_no_file(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyAttributeError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
}

pub fn direction(writing: bool) -> Direction {
    match writing {
        false => Direction::Read,
        true => Direction::Write,
    }
}

/// As `_add_reader` and `_add_writer`, told once per change (`edge`) or once and then no more
/// until the fd is watched again (`oneshot`).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "they are Python's")]
#[pyo3(signature = (event_loop, fd, writing, edge, oneshot, callback, args, context, /))]
pub fn watch_fd(
    event_loop: &Bound<'_, Loop>,
    fd: &Bound<'_, PyAny>,
    writing: bool,
    edge: bool,
    oneshot: bool,
    callback: Bound<'_, PyAny>,
    args: Bound<'_, PyTuple>,
    context: Option<Bound<'_, PyAny>>,
) -> PyResult<Py<Handle>> {
    event_loop.get().check_closed(event_loop.py())?;
    let handle = Handle::build(event_loop, Call::new(callback, args), context)?;
    let mode = Mode { edge, oneshot };
    Loop::watch(event_loop, fd, direction(writing), mode, handle)
}

/// Whether `handle` is still what is told about this fd.
fn is_told(
    event_loop: &Bound<'_, Loop>,
    fd: RawFd,
    direction: Direction,
    handle: &Bound<'_, Handle>,
) -> bool {
    let py = event_loop.py();
    let known = event_loop
        .get()
        .fds
        .with(py, |fds| fds.handle(py, fd, direction));
    known.is_some_and(|known| known.is(handle))
}

/// Has the callback of a watch that was paused, or was `oneshot`, told again, without making it
/// anew. False if `handle` is no longer what is told about this fd.
#[pyfunction]
#[pyo3(signature = (event_loop, fd, writing, oneshot, handle, /))]
pub fn rearm_fd(
    event_loop: &Bound<'_, Loop>,
    fd: RawFd,
    writing: bool,
    oneshot: bool,
    handle: &Bound<'_, Handle>,
) -> PyResult<bool> {
    let direction = direction(writing);
    if !is_told(event_loop, fd, direction, handle) {
        return Ok(false);
    }
    let native = event_loop.get().native(event_loop.py())?;
    let mode = Mode {
        edge: false,
        oneshot,
    };
    let watched = native.core.watch(fd, direction, 0, mode);
    watched.map(|_| true).map_err(watch_error)
}

/// Has it told nothing until `rearm_fd`. Fine if `handle` is no longer what is told.
#[pyfunction]
#[pyo3(signature = (event_loop, fd, writing, handle, /))]
pub fn pause_fd(
    event_loop: &Bound<'_, Loop>,
    fd: RawFd,
    writing: bool,
    handle: &Bound<'_, Handle>,
) -> PyResult<()> {
    let direction = direction(writing);
    if !is_told(event_loop, fd, direction, handle) {
        return Ok(());
    }
    let native = event_loop.get().native(event_loop.py())?;
    match native.core.pause_fd(fd, direction) {
        // The fd was closed: there is nothing to tell.
        Ok(()) | Err(event_loop::Error::Stale) => Ok(()),
        Err(error) => Err(watch_error(error)),
    }
}

/// Level-triggered, as asyncio's selectors are.
pub const MODE: Mode = Mode::LEVEL;

/// The exception `selectors` would have raised.
pub fn watch_error(error: event_loop::Error) -> PyErr {
    match error.errno() {
        Some(errno) => os_error(errno),
        None => super::errors::raised(error.into()),
    }
}

/// `OSError` with errno and text: Python makes the right subclass of it.
pub fn os_error(errno: i32) -> PyErr {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    // Rust adds " (os error N)".
    let text = text
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned();
    PyOSError::new_err((errno, text))
}
