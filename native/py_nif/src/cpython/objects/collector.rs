//! Keeps Python's garbage collector from running while a large term becomes Python objects: all of
//! them are alive, and searching them for garbage repeatedly took nearly half of the time. From
//! CPython 3.12 on the collector does not run during a native call.
#![allow(unsafe_code)]

use std::marker::PhantomData;

#[cfg(not(Py_3_12))]
use pyo3::ffi;
use pyo3::prelude::*;

/// The collector does not run as long as this value lives.
#[must_use]
pub struct Paused<'py> {
    #[cfg(not(Py_3_12))]
    was_enabled: bool,
    attached: PhantomData<Python<'py>>,
}

/// Only for code that runs no Python code.
#[inline]
pub fn pause(_py: Python<'_>) -> Paused<'_> {
    Paused {
        attached: PhantomData,
        // SAFETY: attached.
        #[cfg(not(Py_3_12))]
        was_enabled: unsafe { ffi::PyGC_Disable() == 1 },
    }
}

#[cfg(not(Py_3_12))]
impl Drop for Paused<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.was_enabled {
            // SAFETY: still attached, by its lifetime.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}
