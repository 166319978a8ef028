//! Handles that were used, to be used again: `call_soon` and `call_later` then make no object, only
//! fill one in (`bench/`: call_soon chain and burst, timers).
//!
//! A handle that dies is emptied and kept, with its Rust value whole, instead of being freed.
//! Guarded by the GIL; without one, handles are made and freed as other objects are.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::PyClass;

use super::collector;
use super::handle::Handle;
use super::timer_handle::TimerHandle;

/// Some 100 bytes each, so 1.6 MiB of a class at most, once a burst of callbacks was that large.
const KEPT: usize = 16 * 1024;

pub struct Pool {
    class: *mut ffi::PyTypeObject,
    /// What frees a handle for good: the class's own `tp_dealloc`.
    free: Option<ffi::destructor>,
    unused: Vec<NonNull<ffi::PyObject>>,
}

pub struct Guarded(UnsafeCell<Pool>);

// SAFETY: only looked at by attached threads, of which there is one at a time; no function here
// runs Python code while it has a reference to what is inside.
unsafe impl Sync for Guarded {}

impl Guarded {
    const fn new() -> Self {
        Guarded(UnsafeCell::new(Pool {
            class: ptr::null_mut(),
            free: None,
            unused: Vec::new(),
        }))
    }
}

/// A class whose instances are used again.
pub trait Kept: PyClass {
    fn pool() -> &'static Guarded;

    /// What is to be emptied of one.
    fn handle<'a>(kept: &'a Bound<'_, Self>) -> &'a Handle;
}

impl Kept for Handle {
    fn pool() -> &'static Guarded {
        static POOL: Guarded = Guarded::new();
        &POOL
    }

    fn handle<'a>(kept: &'a Bound<'_, Self>) -> &'a Handle {
        kept.get()
    }
}

impl Kept for TimerHandle {
    fn pool() -> &'static Guarded {
        static POOL: Guarded = Guarded::new();
        &POOL
    }

    fn handle<'a>(kept: &'a Bound<'_, Self>) -> &'a Handle {
        kept.as_super().get()
    }
}

/// Makes dead handles come here. Called once, before the first handle is made.
pub fn install<T: Kept>(py: Python<'_>) {
    let class = py.get_type::<T>().as_type_ptr();
    // SAFETY: attached; the class is a heap type of ours, whose slots its maker may set. See
    // `Guarded` for the pool.
    unsafe {
        let pool = &mut *T::pool().0.get();
        pool.class = class;
        pool.free = (*class).tp_dealloc.replace(keep::<T>);
    }
}

/// An empty handle, if there is one.
#[inline]
pub fn take<T: Kept>(py: Python<'_>) -> Option<Py<T>> {
    // SAFETY: attached, as `py` shows. What is in the pool is a whole instance of the class, and the
    // pool has the only reference to it (`keep`), which is the caller's from now on.
    unsafe {
        let pool = &mut *T::pool().0.get();
        let object = pool.unused.pop()?.as_ptr();
        Some(
            Bound::from_owned_ptr(py, object)
                .cast_into_unchecked()
                .unbind(),
        )
    }
}

/// `tp_dealloc` of the class; of its subclasses, too, when they are done with what is theirs.
unsafe extern "C" fn keep<T: Kept>(object: *mut ffi::PyObject) {
    // SAFETY: called by CPython, attached, for an object without references. Every read of the
    // pool ends before code that may come back here.
    unsafe {
        let pool = T::pool().0.get();
        if ffi::Py_TYPE(object) != (*pool).class || (*pool).unused.len() >= KEPT {
            if let Some(free) = (*pool).free {
                free(object);
            }
            return;
        }
        ffi::PyObject_GC_UnTrack(object.cast());
        if collector::has_weak_references(object) {
            ffi::PyObject_ClearWeakRefs(object);
        }
        let py = Python::assume_attached();
        let kept = Borrowed::from_ptr(py, object).cast_unchecked::<T>();
        T::handle(&kept).let_go(py);
        // The pool's reference: it lives on, and so does its reference to the class.
        ffi::Py_INCREF(object);
        // Letting go may have run code that filled the pool: it grows a little then.
        (*pool).unused.push(NonNull::new_unchecked(object));
    }
}
