//! A mutable field for one value, guarded by the GIL: smaller and faster than a
//! [`GilCell`](super::gil_cell::GilCell), because the value is only moved in and out. In builds
//! without a GIL a lock replaces it.
#![allow(unsafe_code)]

#[cfg(not(Py_GIL_DISABLED))]
use std::cell::Cell;

use pyo3::prelude::*;

#[cfg(Py_GIL_DISABLED)]
use super::thread_lock::ThreadLock;

#[cfg(not(Py_GIL_DISABLED))]
pub struct GilSlot<T>(Cell<Option<T>>);

#[cfg(Py_GIL_DISABLED)]
pub struct GilSlot<T>(ThreadLock<Option<T>>);

impl<T> Default for GilSlot<T> {
    fn default() -> Self {
        GilSlot::new(None)
    }
}

// SAFETY: every access requires a `Python` token, and only one thread at a time has one.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilSlot<T> {}

#[cfg(not(Py_GIL_DISABLED))]
impl<T> GilSlot<T> {
    #[inline]
    pub const fn new(value: Option<T>) -> Self {
        GilSlot(Cell::new(value))
    }

    #[inline]
    pub fn replace(&self, _py: Python<'_>, value: Option<T>) -> Option<T> {
        self.0.replace(value)
    }

    /// For the garbage collector, which runs attached but has no token.
    #[inline]
    pub fn visit<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        // The value is out of the slot during the call: whatever `look` does, its reference is
        // valid.
        let value = self.0.take();
        let answer = look(value.as_ref());
        self.0.set(value);
        answer
    }
}

#[cfg(Py_GIL_DISABLED)]
impl<T> GilSlot<T> {
    pub const fn new(value: Option<T>) -> Self {
        GilSlot(ThreadLock::new(value))
    }

    pub fn replace(&self, _py: Python<'_>, value: Option<T>) -> Option<T> {
        self.0.with(|old| std::mem::replace(old, value))
    }

    /// For the garbage collector, which has stopped all other threads. A value that is being
    /// changed is visited by the next collection.
    pub fn visit<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        let mut look = Some(look);
        let mut once = |value: Option<&T>| look.take().map(|look| look(value));
        let seen = self.0.look(|value| once(value.as_ref())).flatten();
        seen.or_else(|| once(None)).expect("looked at once")
    }
}

impl<T> GilSlot<T> {
    #[inline]
    pub fn take(&self, py: Python<'_>) -> Option<T> {
        self.replace(py, None)
    }

    /// Returns the result of `look`. `look` must not run Python code, which could change the slot.
    #[inline]
    #[cfg(not(Py_GIL_DISABLED))]
    pub fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.visit(look)
    }

    /// Returns the result of `look`. `look` must not run Python code, which could change the slot.
    #[cfg(Py_GIL_DISABLED)]
    pub fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.0.with(|value| look(value.as_ref()))
    }
}

impl<T> GilSlot<T> {
    /// The value, for the exclusive owner of the slot.
    pub fn take_owned(&mut self) -> Option<T> {
        self.0.get_mut().take()
    }
}

impl<T> GilSlot<Py<T>> {
    /// Another reference to the object inside.
    #[inline]
    #[cfg(not(Py_GIL_DISABLED))]
    pub fn cloned(&self, py: Python<'_>) -> Option<Py<T>> {
        // SAFETY: only one thread at a time has a token, and incrementing a reference count runs no
        // code that could change the slot.
        let value = unsafe { &*self.0.as_ptr() };
        value.as_ref().map(|object| object.clone_ref(py))
    }

    /// Another reference to the object inside.
    #[cfg(Py_GIL_DISABLED)]
    pub fn cloned(&self, py: Python<'_>) -> Option<Py<T>> {
        self.look(py, |value| value.map(|object| object.clone_ref(py)))
    }
}
