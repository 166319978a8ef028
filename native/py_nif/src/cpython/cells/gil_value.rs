//! A small mutable value of a Python object, guarded by the GIL. It is only copied in and out, so
//! there is no re-entry to check for, as in a [`GilCell`](super::gil_cell::GilCell), and no space
//! is needed for that. In builds without a GIL a lock replaces it.
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

// SAFETY: every access requires a `Python` token, and only one thread at a time has one.
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
