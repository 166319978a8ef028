//! Calling a Python callback inside its context (`contextvars`), without Python frames of ours
//! in between.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;

use super::arguments::Arguments;
use super::collector;

/// The context of a handle. A copy made for that handle is ignored by the collector meanwhile;
/// CPython, which frees it, takes for granted that it is not, so it is noticed before.
pub struct HandleContext(Py<PyAny>);

impl HandleContext {
    /// `given`, or a copy of the current one. `ignored`: for a handle that the collector ignores,
    /// one of many.
    #[inline]
    pub fn new(
        py: Python<'_>,
        given: Option<Bound<'_, PyAny>>,
        ignored: bool,
    ) -> PyResult<HandleContext> {
        if let Some(given) = given {
            return Ok(HandleContext(given.unbind()));
        }
        let copy = copy_current(py)?;
        if ignored {
            collector::ignore(&copy);
        }
        Ok(HandleContext(copy))
    }

    /// The context itself, for somebody who may keep it.
    pub fn to_show(&self, py: Python<'_>) -> Py<PyAny> {
        collector::notice(&self.0);
        self.0.clone_ref(py)
    }

    /// As it is, for the time of a call.
    #[inline]
    pub fn to_enter(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.clone_ref(py)
    }

    pub fn object(&self) -> &Py<PyAny> {
        &self.0
    }

    /// As dropping it, without asking whether this thread is attached. `ignored`: as it was made.
    #[inline]
    pub fn drop_ref(self, py: Python<'_>, ignored: bool) {
        if ignored {
            collector::notice(&self.0);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: what it is read from is never used or dropped again.
        unsafe { ptr::read(&this.0) }.drop_ref(py);
    }
}

impl Drop for HandleContext {
    #[inline]
    fn drop(&mut self) {
        collector::notice(&self.0);
    }
}

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

/// `context.run(body)`, where the body is ours.
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

/// `context.run(callback, *arguments)`, the result dropped.
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
