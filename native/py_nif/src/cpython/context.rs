//! Calls a Python callback in its context (`contextvars`), without extra Python frames in between.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;

use super::arguments::Arguments;

/// `contextvars.copy_context()`.
pub fn copy_current(py: Python<'_>) -> PyResult<Py<PyAny>> {
    // SAFETY: attached; a new reference or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_CopyCurrent()).map(Bound::unbind) }
}

/// `contextvars.Context()`.
pub fn empty(py: Python<'_>) -> PyResult<Py<PyAny>> {
    // SAFETY: attached; a new reference or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_New()).map(Bound::unbind) }
}

/// `context.copy()`.
pub fn copy(py: Python<'_>, context: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    // SAFETY: attached, and `context` is a Context (checked by CPython, which raises if not); a new
    // reference or null with an exception set.
    unsafe {
        let copy = ffi::PyContext_Copy(context.as_ptr());
        Bound::from_owned_ptr_or_err(py, copy).map(Bound::unbind)
    }
}

/// `context.run(body)` for a native body.
pub fn within<R>(
    py: Python<'_>,
    context: &Py<PyAny>,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    enter(py, context)?;
    let result = body();
    leave(py, context)?;
    result
}

/// `context.run(callback, *arguments)`; drops the result.
pub fn run(
    py: Python<'_>,
    context: &Py<PyAny>,
    callback: &Py<PyAny>,
    arguments: &Arguments,
) -> PyResult<()> {
    within(py, context, || arguments.call(py, callback))
}

/// Makes `context` the current one until [`leave`].
pub fn enter(py: Python<'_>, context: &Py<PyAny>) -> PyResult<()> {
    // SAFETY: attached, and `context` is a Context (checked by CPython, which raises if not).
    check(py, unsafe { ffi::PyContext_Enter(context.as_ptr()) })
}

pub fn leave(py: Python<'_>, context: &Py<PyAny>) -> PyResult<()> {
    // No exception may be set while the context is left: an exception of the callback has been
    // fetched into a `PyErr` by then.
    // SAFETY: as in `enter`.
    check(py, unsafe { ffi::PyContext_Exit(context.as_ptr()) })
}

fn check(py: Python<'_>, status: std::ffi::c_int) -> PyResult<()> {
    match status {
        0 => Ok(()),
        _ => Err(PyErr::fetch(py)),
    }
}
