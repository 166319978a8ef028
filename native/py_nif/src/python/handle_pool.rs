//! Handles that were used, to be used again: `call_soon` then makes no object, only fills one in
//! (`bench/`: call_soon chain and burst).
//!
//! A handle that dies is emptied and kept, with its Rust value whole, instead of being freed.
//! Guarded by the GIL; without one, handles are made and freed as other objects are.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::handle::Handle;

/// Some 100 bytes each, so 1.6 MiB at most, once a burst of callbacks was that large.
const KEPT: usize = 16 * 1024;

struct Pool {
    class: *mut ffi::PyTypeObject,
    /// What frees a handle for good: the class's own `tp_dealloc`.
    free: Option<ffi::destructor>,
    unused: Vec<NonNull<ffi::PyObject>>,
}

struct Guarded(UnsafeCell<Pool>);

// SAFETY: only looked at by attached threads, of which there is one at a time; no function here
// runs Python code while it has a reference to what is inside.
unsafe impl Sync for Guarded {}

static POOL: Guarded = Guarded(UnsafeCell::new(Pool {
    class: ptr::null_mut(),
    free: None,
    unused: Vec::new(),
}));

/// Makes dead handles come here. Called once, before the first handle is made.
pub fn install(class: &Bound<'_, PyType>) {
    let class = class.as_type_ptr();
    // SAFETY: attached; the class is a heap type of ours, whose slots its maker may set. See
    // `Guarded` for the pool.
    unsafe {
        let pool = &mut *POOL.0.get();
        pool.class = class;
        pool.free = (*class).tp_dealloc.replace(keep);
    }
}

/// An empty handle, if there is one.
#[inline]
pub fn take(py: Python<'_>) -> Option<Py<Handle>> {
    // SAFETY: attached, as `py` shows. What is in the pool is an instance of the class without
    // references to it (`keep`); `PyObject_Init` makes it one with a single reference, which we
    // own, and takes the reference to the class that `keep` let go of.
    unsafe {
        let pool = &mut *POOL.0.get();
        let object = pool.unused.pop()?.as_ptr();
        ffi::PyObject_Init(object, pool.class);
        Some(
            Bound::from_owned_ptr(py, object)
                .cast_into_unchecked()
                .unbind(),
        )
    }
}

/// `tp_dealloc` of `Handle`, and of its subclasses when they are done with what is theirs.
unsafe extern "C" fn keep(object: *mut ffi::PyObject) {
    // SAFETY: called by CPython, attached, for an object without references. Every read of the
    // pool ends before code that may come back here.
    unsafe {
        let pool = POOL.0.get();
        if ffi::Py_TYPE(object) != (*pool).class || (*pool).unused.len() >= KEPT {
            if let Some(free) = (*pool).free {
                free(object);
            }
            return;
        }
        ffi::PyObject_GC_UnTrack(object.cast());
        ffi::PyObject_ClearWeakRefs(object);
        let py = Python::assume_attached();
        let handle = Borrowed::from_ptr(py, object).cast_unchecked::<Handle>();
        handle.get().let_go(py);
        ffi::Py_DECREF((*pool).class.cast());
        // Letting go may have run code that filled the pool: it grows a little then.
        (*pool).unused.push(NonNull::new_unchecked(object));
    }
}
