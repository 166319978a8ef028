//! Python's garbage collector, told which objects it need not look at.
//!
//! Callbacks and timers come and go by the thousand, each with a context; the collector would
//! visit them in vain. An object that it ignores is freed as ever when its last reference goes,
//! but a cycle through it is not found. So it is only ignored while it is bound to go soon, or
//! while a loop is the only one who has it: then the loop shows the collector what it holds
//! (`loop_traverse`). Where Python has no GIL, nothing is ignored.
//!
//! While a large term becomes Python objects, all of them live: to look for garbage among them, again
//! and again, took nearly half of the time. From 3.12 on Python does not, inside one native call.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use pyo3::ffi;
use pyo3::prelude::*;

/// The collector no longer visits `object`, until [`notice`].
#[inline]
pub fn ignore<T>(object: &Py<T>) {
    // SAFETY: attached (a `Py` was just made), and the object is one with a collector's header:
    // a context, or of a class of ours that has `__traverse__`. Untracking twice is allowed.
    #[cfg(not(Py_GIL_DISABLED))]
    unsafe {
        ffi::PyObject_GC_UnTrack(object.as_ptr().cast());
    }
    #[cfg(Py_GIL_DISABLED)]
    let _ = object;
}

/// The collector visits `object` again.
#[inline]
pub fn notice<T>(object: &Py<T>) {
    // SAFETY: as in `ignore`; the object is whole, and it is not tracked twice.
    unsafe {
        if ffi::PyObject_GC_IsTracked(object.as_ptr()) == 0 {
            ffi::PyObject_GC_Track(object.as_ptr().cast());
        }
    }
}

/// The collector does not run as long as this lives.
#[must_use]
pub struct Paused<'py> {
    #[cfg(all(Py_3_10, not(Py_3_12)))]
    was_enabled: bool,
    attached: PhantomData<Python<'py>>,
}

/// For as long as no other Python code runs.
#[inline]
pub fn pause(_py: Python<'_>) -> Paused<'_> {
    Paused {
        attached: PhantomData,
        // SAFETY: attached.
        #[cfg(all(Py_3_10, not(Py_3_12)))]
        was_enabled: unsafe { ffi::PyGC_Disable() == 1 },
    }
}

#[cfg(all(Py_3_10, not(Py_3_12)))]
impl Drop for Paused<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.was_enabled {
            // SAFETY: still attached, by its lifetime.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// Whether somebody else has a reference, too.
#[inline]
pub fn is_shared(object: *mut ffi::PyObject) -> bool {
    // SAFETY: attached, and the object is alive: the caller has a reference to it.
    unsafe { ffi::Py_REFCNT(object) > 1 }
}

/// Whether whoever has this reference is the only one who can reach the object.
#[inline]
pub fn is_only_ours(object: *mut ffi::PyObject) -> bool {
    // SAFETY: as in `is_shared`.
    !is_shared(object) && unsafe { !has_weak_references(object) }
}

/// # Safety
/// Attached, and the object is alive.
#[inline]
pub unsafe fn has_weak_references(object: *mut ffi::PyObject) -> bool {
    // SAFETY: by the contract above. A class that allows them has room for the list's head there.
    unsafe {
        match (*ffi::Py_TYPE(object)).tp_weaklistoffset {
            0 => false,
            // From Python 3.12 on: managed by the interpreter, in no class that is asked about.
            offset if offset < 0 => true,
            offset => {
                let list = object.cast::<u8>().offset(offset);
                !(*list.cast::<*mut ffi::PyObject>()).is_null()
            }
        }
    }
}
