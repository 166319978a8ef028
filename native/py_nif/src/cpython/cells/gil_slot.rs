//! A field that is only replaced, copied or moved out, guarded by the GIL: as `Cell` is to
//! `RefCell`, so is this to a [`GilCell`](super::gil_cell::GilCell). It needs no space and no time to
//! check for re-entry: with `GilCell` alone, a callback, a timer and a message took 7 to 8 % more
//! instructions. In builds without a GIL a lock replaces it.
#![allow(unsafe_code)]

#[cfg(not(Py_GIL_DISABLED))]
use std::cell::Cell;

use pyo3::prelude::*;

#[cfg(Py_GIL_DISABLED)]
use super::thread_lock::ThreadLock;

#[cfg(not(Py_GIL_DISABLED))]
#[derive(Default)]
pub struct GilSlot<T>(Cell<T>);

#[cfg(Py_GIL_DISABLED)]
#[derive(Default)]
pub struct GilSlot<T>(ThreadLock<T>);

// SAFETY: every access requires a `Python` token, and only one thread at a time has one.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for GilSlot<T> {}

#[cfg(not(Py_GIL_DISABLED))]
impl<T> GilSlot<T> {
    #[inline]
    pub const fn new(value: T) -> Self {
        GilSlot(Cell::new(value))
    }

    #[inline]
    pub fn replace(&self, _py: Python<'_>, value: T) -> T {
        self.0.replace(value)
    }

    #[inline]
    pub fn get(&self, _py: Python<'_>) -> T
    where
        T: Copy,
    {
        self.0.get()
    }
}

#[cfg(Py_GIL_DISABLED)]
impl<T> GilSlot<T> {
    pub const fn new(value: T) -> Self {
        GilSlot(ThreadLock::new(value))
    }

    pub fn replace(&self, _py: Python<'_>, value: T) -> T {
        self.0.with(|old| std::mem::replace(old, value))
    }

    pub fn get(&self, _py: Python<'_>) -> T
    where
        T: Copy,
    {
        self.0.with(|value| *value)
    }
}

impl<T: Copy> GilSlot<T> {
    #[inline]
    pub fn set(&self, py: Python<'_>, value: T) {
        self.replace(py, value);
    }
}

impl<T> GilSlot<Option<T>> {
    #[inline]
    pub fn take(&self, py: Python<'_>) -> Option<T> {
        self.replace(py, None)
    }

    /// The value, for the exclusive owner of the slot.
    pub fn take_owned(&mut self) -> Option<T> {
        self.0.get_mut().take()
    }
}

#[cfg(not(Py_GIL_DISABLED))]
impl<T> GilSlot<Option<T>> {
    /// For the garbage collector, which runs attached but has no token.
    #[inline]
    pub fn visit<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        // The value is out of the slot during the call: whatever `look` does, its reference is
        // valid.
        let value = self.0.take();
        let result = look(value.as_ref());
        self.0.set(value);
        result
    }

    /// Returns the result of `look`, which must not run Python code: that could change the slot.
    #[inline]
    pub fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.visit(look)
    }
}

#[cfg(Py_GIL_DISABLED)]
impl<T> GilSlot<Option<T>> {
    /// For the garbage collector, which has stopped all other threads. A value that is being
    /// changed is visited by the next collection.
    pub fn visit<R>(&self, look: impl FnOnce(Option<&T>) -> R) -> R {
        let mut look = Some(look);
        let mut once = |value: Option<&T>| look.take().map(|look| look(value));
        let seen = self.0.look(|value| once(value.as_ref())).flatten();
        seen.or_else(|| once(None)).expect("`once` runs once")
    }

    /// Returns the result of `look`, which must not run Python code: that could change the slot.
    pub fn look<R>(&self, _py: Python<'_>, look: impl FnOnce(Option<&T>) -> R) -> R {
        self.0.with(|value| look(value.as_ref()))
    }
}

impl<T> GilSlot<Option<Py<T>>> {
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
