//! What PyO3 does not ask of objects: slots of their types, the code of functions, the attributes of
//! `object` itself.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Whether `await` accepts it, as far as its type says.
pub fn is_awaitable(value: &Bound<'_, PyAny>) -> bool {
    has_async(value, |slots| slots.am_await.is_some())
}

/// Whether `async for` accepts it.
pub fn is_async_iterable(value: &Bound<'_, PyAny>) -> bool {
    has_async(value, |slots| slots.am_aiter.is_some())
}

fn has_async(value: &Bound<'_, PyAny>, look: impl FnOnce(&ffi::PyAsyncMethods) -> bool) -> bool {
    // SAFETY: attached; the type of a live object, whose slots are fixed.
    unsafe {
        let slots = (*ffi::Py_TYPE(value.as_ptr())).tp_as_async;
        !slots.is_null() && look(&*slots)
    }
}

/// The address of a plain Python function's code; null for everything else. Only to compare, not to
/// read: another thread may replace the code.
pub fn code_address(callable: &Bound<'_, PyAny>) -> *mut ffi::PyObject {
    // SAFETY: attached, with a live object; called only for functions.
    unsafe {
        match ffi::PyFunction_Check(callable.as_ptr()) {
            0 => std::ptr::null_mut(),
            _ => ffi::PyFunction_GetCode(callable.as_ptr()),
        }
    }
}

/// `object.__setattr__(object, name, value)`; without a value, deletes the attribute.
pub fn set_attribute(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let value = value.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: does what `object` itself does, with live objects; null deletes.
    match unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(object.py())),
    }
}

/// Whether it is a method that C or Rust code has defined.
pub fn is_native_method(object: &Bound<'_, PyAny>) -> bool {
    object.get_type_ptr() == &raw mut ffi::PyMethodDescr_Type
}
