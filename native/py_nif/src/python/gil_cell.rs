//! State of Python objects that Rust changes: guarded by the GIL, checked for re-entry.
//!
//! A closure given to [`GilCell::with`] must not run Python code (call, compare, drop the last
//! reference to an object): that code could come back here, and would panic instead of seeing
//! half-changed state. Move values out and let go of them afterwards.
#![allow(unsafe_code)]

use std::cell::RefCell;

use pyo3::prelude::*;

#[derive(Default)]
pub struct GilCell<T>(RefCell<T>);

// SAFETY: every access asks for a `Python` token, and only one thread at a time has one.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub const fn new(value: T) -> Self {
        GilCell(RefCell::new(value))
    }

    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.borrow_mut())
    }

    #[inline]
    pub fn replace(&self, _py: Python<'_>, value: T) -> T {
        self.0.replace(value)
    }

    /// For the garbage collector, which runs attached but has no token to show. Nothing if the
    /// value is being changed: then it is reached by the next collection.
    pub fn visit(&self, look: impl FnOnce(&T)) {
        if let Ok(value) = self.0.try_borrow() {
            look(&value);
        }
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
    pub fn get(&self, _py: Python<'_>) -> T {
        *self.0.borrow()
    }

    #[inline]
    pub fn set(&self, _py: Python<'_>, value: T) {
        *self.0.borrow_mut() = value;
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
