//! The functions behind `add_reader` and `add_writer`, and what the generators and callbacks of
//! `erlang_loop` need in addition. `fd_table` records what a loop watches.

use std::os::fd::RawFd;

use event_loop::{Direction, Mode};
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use super::class::Loop;
use crate::asyncio::handles::handle::{Call, Handle};
use crate::cpython::errors::os_error;

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

/// As [`fileno`]. A file that was closed while it was watched keeps its former number.
pub fn known_fileno(event_loop: &Loop, file: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    let py = file.py();
    fileno(file).or_else(|error| {
        let known = event_loop.files.fds.with(py, |fds| fds.number_of(file));
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

/// As `_add_reader` and `_add_writer`, but reports once per change (`edge`), or once until the fd
/// is watched again (`oneshot`).
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

/// Whether `handle` is still the watcher of this fd.
fn is_watcher(
    event_loop: &Bound<'_, Loop>,
    fd: RawFd,
    direction: Direction,
    handle: &Bound<'_, Handle>,
) -> bool {
    let py = event_loop.py();
    let known = event_loop
        .get()
        .files
        .fds
        .with(py, |fds| fds.handle(py, fd, direction));
    known.is_some_and(|known| known.is(handle))
}

/// Resumes a watch that was paused, or was `oneshot`, without creating it again. False if `handle`
/// is no longer the watcher of this fd.
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
    if !is_watcher(event_loop, fd, direction, handle) {
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

/// Pauses a watch until `rearm_fd`. No effect if `handle` is no longer the watcher.
#[pyfunction]
#[pyo3(signature = (event_loop, fd, writing, handle, /))]
pub fn pause_fd(
    event_loop: &Bound<'_, Loop>,
    fd: RawFd,
    writing: bool,
    handle: &Bound<'_, Handle>,
) -> PyResult<()> {
    let direction = direction(writing);
    if !is_watcher(event_loop, fd, direction, handle) {
        return Ok(());
    }
    let native = event_loop.get().native(event_loop.py())?;
    match native.core.pause_fd(fd, direction) {
        // The fd was closed: there is nothing to report.
        Ok(()) | Err(event_loop::Error::Stale) => Ok(()),
        Err(error) => Err(watch_error(error)),
    }
}

/// Level-triggered, as asyncio's selectors are.
pub const MODE: Mode = Mode::LEVEL;

/// The exception that `selectors` would raise.
pub fn watch_error(error: event_loop::Error) -> PyErr {
    match error.errno() {
        Some(errno) => os_error(errno),
        None => crate::cpython::errors::raised(error.into()),
    }
}
