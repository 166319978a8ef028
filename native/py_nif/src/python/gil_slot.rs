//! A place for one value that Rust changes, guarded by the GIL: smaller and quicker than a
//! [`GilCell`](super::gil_cell::GilCell), because a value is only ever moved in and out.
#![allow(unsafe_code)]

use std::cell::Cell;

use pyo3::prelude::*;

pub struct GilSlot<T>(Cell<Option<T>>);

// SAFETY: every access asks for a `Python` token, and only one thread at a time has one.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilSlot<T> {}

impl<T> GilSlot<T> {
    #[inline]
    pub const fn new(value: Option<T>) -> Self {
        GilSlot(Cell::new(value))
    }

    #[inline]
    pub fn replace(&self, _py: Python<'_>, value: Option<T>) -> Option<T> {
        self.0.replace(value)
    }

    #[inline]
    pub fn take(&self, _py: Python<'_>) -> Option<T> {
        self.0.take()
    }

    /// What `look` makes of the value. It must not run Python code, which could change the slot.
    #[inline]
    pub fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.visit(look)
    }

    /// For the garbage collector, which runs attached but has no token to show.
    #[inline]
    pub fn visit<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        // Out of the slot while it is looked at: whatever `look` does, its reference is good.
        let value = self.0.take();
        let answer = look(value.as_ref());
        self.0.set(value);
        answer
    }
}

impl<T> GilSlot<Py<T>> {
    /// Another reference to the object inside.
    #[inline]
    pub fn cloned(&self, py: Python<'_>) -> Option<Py<T>> {
        self.look(py, |value| value.map(|object| object.clone_ref(py)))
    }
}
