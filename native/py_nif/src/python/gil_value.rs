//! A small value of a Python object that Rust changes, guarded by the GIL: only ever copied in and
//! out, so there is no re-entry to check for, as in a [`GilCell`](super::gil_cell::GilCell), and no
//! room for that is needed. Where Python has no GIL, a lock takes its place here, too.
#![allow(unsafe_code)]

#[cfg(not(Py_GIL_DISABLED))]
use std::cell::Cell;

use pyo3::prelude::*;

#[cfg(Py_GIL_DISABLED)]
use super::thread_lock::ThreadLock;

#[cfg(not(Py_GIL_DISABLED))]
#[derive(Default)]
pub struct GilValue<T>(Cell<T>);

#[cfg(Py_GIL_DISABLED)]
#[derive(Default)]
pub struct GilValue<T>(ThreadLock<T>);

// SAFETY: every access asks for a `Python` token, and only one thread at a time has one.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilValue<T> {}

#[cfg(not(Py_GIL_DISABLED))]
impl<T: Copy> GilValue<T> {
    pub const fn new(value: T) -> Self {
        GilValue(Cell::new(value))
    }

    #[inline]
    pub fn get(&self, _py: Python<'_>) -> T {
        self.0.get()
    }

    #[inline]
    pub fn replace(&self, _py: Python<'_>, value: T) -> T {
        self.0.replace(value)
    }
}

#[cfg(Py_GIL_DISABLED)]
impl<T: Copy> GilValue<T> {
    pub const fn new(value: T) -> Self {
        GilValue(ThreadLock::new(value))
    }

    pub fn get(&self, _py: Python<'_>) -> T {
        self.0.with(|value| *value)
    }

    pub fn replace(&self, _py: Python<'_>, value: T) -> T {
        self.0.with(|old| std::mem::replace(old, value))
    }
}

impl<T: Copy> GilValue<T> {
    #[inline]
    pub fn set(&self, py: Python<'_>, value: T) {
        self.replace(py, value);
    }
}
