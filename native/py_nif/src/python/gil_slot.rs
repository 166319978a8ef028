//! A place for one value that Rust changes, guarded by the GIL: smaller and quicker than a
//! [`GilCell`](super::gil_cell::GilCell), because a value is only ever moved in and out. Where
//! Python has no GIL, a lock takes its place here, too.
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

// SAFETY: every access asks for a `Python` token, and only one thread at a time has one.
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

#[cfg(Py_GIL_DISABLED)]
impl<T> GilSlot<T> {
    pub const fn new(value: Option<T>) -> Self {
        GilSlot(ThreadLock::new(value))
    }

    pub fn replace(&self, _py: Python<'_>, value: Option<T>) -> Option<T> {
        self.0.with(|old| std::mem::replace(old, value))
    }

    /// For the garbage collector, which has stopped all other threads. A value that is being
    /// changed is reached by the next collection.
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

    /// What `look` makes of the value. It must not run Python code, which could change the slot.
    #[inline]
    #[cfg(not(Py_GIL_DISABLED))]
    pub fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.visit(look)
    }

    /// What `look` makes of the value. It must not run Python code, which could change the slot.
    #[cfg(Py_GIL_DISABLED)]
    pub fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.0.with(|value| look(value.as_ref()))
    }
}

impl<T> GilSlot<Py<T>> {
    /// Another reference to the object inside.
    #[inline]
    #[cfg(not(Py_GIL_DISABLED))]
    pub fn cloned(&self, py: Python<'_>) -> Option<Py<T>> {
        // SAFETY: only one thread at a time has a token, and to count a reference runs no code that
        // could change the slot meanwhile.
        let value = unsafe { &*self.0.as_ptr() };
        value.as_ref().map(|object| object.clone_ref(py))
    }

    /// Another reference to the object inside.
    #[cfg(Py_GIL_DISABLED)]
    pub fn cloned(&self, py: Python<'_>) -> Option<Py<T>> {
        self.look(py, |value| value.map(|object| object.clone_ref(py)))
    }
}
