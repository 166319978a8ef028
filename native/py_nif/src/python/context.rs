//! Calling a Python callback inside its context (`contextvars`), without Python frames of ours
//! in between.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// `contextvars.copy_context()`.
pub fn copy_current(py: Python<'_>) -> PyResult<Py<PyAny>> {
    // SAFETY: attached; a new reference or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_CopyCurrent()).map(Bound::unbind) }
}

/// `context.run(callback, *arguments)`, the result dropped.
pub fn run(
    py: Python<'_>,
    context: &Py<PyAny>,
    callback: &Py<PyAny>,
    arguments: &Py<PyTuple>,
) -> PyResult<()> {
    enter(py, context)?;
    let result = call(py, callback, arguments);
    leave(py, context)?;
    result
}

/// Makes `context` the current one until [`leave`].
pub fn enter(py: Python<'_>, context: &Py<PyAny>) -> PyResult<()> {
    // SAFETY: attached, and `context` is a Context (checked by CPython, which raises if not).
    check(py, unsafe { ffi::PyContext_Enter(context.as_ptr()) })
}

pub fn leave(py: Python<'_>, context: &Py<PyAny>) -> PyResult<()> {
    // An exception of the callback must not be set while the context is left: it has been
    // fetched into a `PyErr` by then.
    // SAFETY: as in `enter`.
    check(py, unsafe { ffi::PyContext_Exit(context.as_ptr()) })
}

fn check(py: Python<'_>, answer: std::ffi::c_int) -> PyResult<()> {
    match answer {
        0 => Ok(()),
        _ => Err(PyErr::fetch(py)),
    }
}

#[inline]
fn call(py: Python<'_>, callback: &Py<PyAny>, arguments: &Py<PyTuple>) -> PyResult<()> {
    // SAFETY: attached, all pointers are live objects we hold references to; the result is a new
    // reference or null with an exception set. Most callbacks have no or one argument, and those
    // calls need no tuple to be unpacked.
    unsafe {
        let function = callback.as_ptr();
        let tuple = arguments.as_ptr();
        let result = match ffi::PyTuple_GET_SIZE(tuple) {
            0 => ffi::PyObject_CallNoArgs(function),
            1 => ffi::PyObject_CallOneArg(function, ffi::PyTuple_GET_ITEM(tuple, 0)),
            _ => ffi::PyObject_Call(function, tuple, std::ptr::null_mut()),
        };
        Bound::from_owned_ptr_or_err(py, result).map(drop)
    }
}
