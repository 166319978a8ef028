//! State of Python objects that Rust changes: guarded by the GIL, checked for re-entry. Where
//! Python has no GIL, a lock for each cell takes its place.
//!
//! A closure given to [`GilCell::with`] must not run Python code (call, compare, drop the last
//! reference to an object): that code could come back here, and would panic instead of seeing
//! half-changed state. Move values out and let go of them afterwards.
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

// SAFETY: every access asks for a `Python` token, and only one thread at a time has one.
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

    /// For the garbage collector, which runs attached but has no token to show. Nothing if the
    /// value is being changed: then it is reached by the next collection.
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
    /// The value, for the owner of the cell: nobody else can look.
    pub fn take_owned(&mut self) -> Option<T> {
        self.0.get_mut().take()
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
