//! `__del__` of native classes: PyO3 makes it an ordinary method, which CPython never calls.
//!
//! CPython calls `tp_finalize`, during a collection before it breaks a cycle, and otherwise only if
//! the `tp_dealloc` of the class does. So both slots are set when the module is created.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;

/// How many classes there may be.
const CLASSES: usize = 4;

/// PyO3's `tp_dealloc`, for each class.
static DEALLOC: [OnceLock<ffi::destructor>; CLASSES] = [const { OnceLock::new() }; CLASSES];

/// A class with `__del__`.
pub trait HasFinalizer: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> {
    /// A number of its own, below [`CLASSES`].
    const NUMBER: usize;

    /// Whether `__del__` has anything to do.
    fn needs_finalizer(slf: Borrowed<'_, '_, Self>) -> bool;
}

pub fn install<T: HasFinalizer>(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<T>();
    // Assigning `__del__`, even to its own value, is what fills `tp_finalize`.
    class.setattr("__del__", class.getattr("__del__")?)?;
    // SAFETY: attached, and our own heap type, which has no instances yet.
    unsafe {
        let slot = &raw mut (*class.as_type_ptr()).tp_dealloc;
        if let Some(original) = *slot {
            DEALLOC[T::NUMBER].get_or_init(|| original);
            *slot = Some(dealloc::<T>);
        }
    }
    Ok(())
}

unsafe extern "C" fn dealloc<T: HasFinalizer>(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for an object of the class whose last reference is gone, still
    // complete and tracked, as the finalizer requires; PyO3's function then deallocates it.
    unsafe {
        let py = Python::assume_attached();
        let needed = T::needs_finalizer(Borrowed::from_ptr(py, object).cast_unchecked());
        if needed && ffi::PyObject_CallFinalizerFromDealloc(object) < 0 {
            // The finalizer stored a new reference (a warnings filter may): the object lives on.
            return;
        }
        if let Some(original) = DEALLOC[T::NUMBER].get() {
            original(object);
        }
    }
}
