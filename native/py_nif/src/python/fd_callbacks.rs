//! Callbacks of watched fds: `add_reader`, `add_writer` and their removal.

use std::os::fd::RawFd;

use event_loop::{Direction, Mode, Ready};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use super::handle::Handle;

/// The two handles an fd can have.
#[derive(Default)]
pub struct FdCallbacks {
    pub reader: Option<Py<Handle>>,
    pub writer: Option<Py<Handle>>,
}

/// By fd number: those are small and dense.
#[derive(Default)]
pub struct FdTable(Vec<FdCallbacks>);

impl FdTable {
    fn slot(&mut self, fd: RawFd, direction: Direction) -> &mut Option<Py<Handle>> {
        let index = fd as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, FdCallbacks::default);
        }
        match direction {
            Direction::Read => &mut self.0[index].reader,
            Direction::Write => &mut self.0[index].writer,
        }
    }

    pub fn put(
        &mut self,
        fd: RawFd,
        direction: Direction,
        handle: Py<Handle>,
    ) -> Option<Py<Handle>> {
        self.slot(fd, direction).replace(handle)
    }

    pub fn take(&mut self, fd: RawFd, direction: Direction) -> Option<Py<Handle>> {
        if fd < 0 || fd as usize >= self.0.len() {
            return None;
        }
        self.slot(fd, direction).take()
    }

    pub fn ready(&self, py: Python<'_>, ready: &Ready, mut run: impl FnMut(Py<Handle>)) {
        let Some(callbacks) = self.0.get(ready.fd as usize) else {
            return;
        };
        if let (Some(_), Some(reader)) = (ready.read, &callbacks.reader) {
            run(reader.clone_ref(py));
        }
        if let (Some(_), Some(writer)) = (ready.write, &callbacks.writer) {
            run(writer.clone_ref(py));
        }
    }

    pub fn handles(&self) -> impl Iterator<Item = &Py<Handle>> {
        self.0
            .iter()
            .flat_map(|callbacks| [&callbacks.reader, &callbacks.writer])
            .flatten()
    }

    pub fn get(&self, py: Python<'_>, fd: RawFd, direction: Direction) -> Option<Py<Handle>> {
        let callbacks = self.0.get(usize::try_from(fd).ok()?)?;
        let handle = match direction {
            Direction::Read => &callbacks.reader,
            Direction::Write => &callbacks.writer,
        };
        handle.as_ref().map(|handle| handle.clone_ref(py))
    }

    pub fn fds(&self) -> Vec<RawFd> {
        let watched = |callbacks: &FdCallbacks| {
            callbacks.reader.is_some() || callbacks.writer.is_some()
        };
        (0..self.0.len())
            .filter(|&index| watched(&self.0[index]))
            .map(|index| index as RawFd)
            .collect()
    }
}

/// An fd from a number or from an object with `fileno()`, as `selectors` accepts them.
pub fn fileno(file: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    let number = match file.extract::<RawFd>() {
        Ok(number) => Ok(number),
        Err(_) => file.call_method0("fileno").and_then(|number| number.extract()),
    };
    match number {
        Ok(fd) if fd >= 0 => Ok(fd),
        Ok(fd) => Err(PyValueError::new_err(format!("Invalid file descriptor: {fd}"))),
        Err(_) => Err(PyValueError::new_err(format!("Invalid file object: {}", file.repr()?))),
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
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((errno, text))
}
