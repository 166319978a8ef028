//! Python's garbage collector, told which objects it need not look at.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::PyClass;

/// The collector no longer visits `object`. It is freed as ever when its last reference goes; a
/// cycle through it is not found while it lasts.
pub fn ignore<T: PyClass>(object: &Py<T>) {
    // SAFETY: attached (a `Py` was just made), and the object is one with a collector's header,
    // since its class has `__traverse__`. Untracking twice is allowed.
    unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
}
