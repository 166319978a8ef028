//! Mutable state of Python objects: guarded by the GIL, checked for re-entry. In builds without a
//! GIL each cell has a lock instead.
//!
//! A closure given to [`GilCell::with`] must not run Python code (call, compare, drop the last
//! reference to an object): that code could use this cell again, and would panic instead of seeing
//! half-changed state. Move values out and drop them afterwards.
#![allow(unsafe_code)]

#[cfg(not(Py_GIL_DISABLED))]
use std::cell::RefCell;

use pyo3::prelude::*;

#[cfg(Py_GIL_DISABLED)]
use super::thread_lock::ThreadLock;

#[cfg(not(Py_GIL_DISABLED))]
#[derive(Default)]
pub struct GilCell<T>(RefCell<T>);

#[cfg(Py_GIL_DISABLED)]
#[derive(Default)]
pub struct GilCell<T>(ThreadLock<T>);

// SAFETY: every access requires a `Python` token, and only one thread at a time has one.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilCell<T> {}

#[cfg(not(Py_GIL_DISABLED))]
impl<T> GilCell<T> {
    pub const fn new(value: T) -> Self {
        GilCell(RefCell::new(value))
    }

    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.borrow_mut())
    }

    /// For the garbage collector, which runs attached but has no token. Skips a value that is being
    /// changed: the next collection visits it.
    pub fn visit(&self, look: impl FnOnce(&T)) {
        if let Ok(value) = self.0.try_borrow() {
            look(&value);
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
impl<T> GilCell<T> {
    pub const fn new(value: T) -> Self {
        GilCell(ThreadLock::new(value))
    }

    pub fn with<R>(&self, _py: Python<'_>, change: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(change)
    }

    /// For the garbage collector, which has stopped all other threads.
    pub fn visit(&self, look: impl FnOnce(&T)) {
        self.0.look(look);
    }
}

impl<T> GilCell<T> {
    #[inline]
    pub fn replace(&self, py: Python<'_>, value: T) -> T {
        self.with(py, |old| std::mem::replace(old, value))
    }
}

impl<T> GilCell<Option<T>> {
    /// The value, for the exclusive owner of the cell.
    pub fn take_owned(&mut self) -> Option<T> {
        self.0.get_mut().take()
    }
}

impl<T> GilCell<T> {
    /// As [`visit`](Self::visit), for closures that can fail.
    pub fn try_visit<E>(&self, look: impl FnOnce(&T) -> Result<(), E>) -> Result<(), E> {
        let mut result = Ok(());
        self.visit(|value| result = look(value));
        result
    }
}

impl<T: Copy> GilCell<T> {
    #[inline]
    pub fn get(&self, py: Python<'_>) -> T {
        self.with(py, |value| *value)
    }

    #[inline]
    pub fn set(&self, py: Python<'_>, value: T) {
        self.with(py, |old| *old = value);
    }
}

impl<T> GilCell<Option<Py<T>>> {
    /// Another reference to the object inside.
    #[inline]
    pub fn cloned(&self, py: Python<'_>) -> Option<Py<T>> {
        self.with(py, |value| {
            value.as_ref().map(|object| object.clone_ref(py))
        })
    }

    pub fn take(&self, py: Python<'_>) -> Option<Py<T>> {
        self.replace(py, None)
    }
}
