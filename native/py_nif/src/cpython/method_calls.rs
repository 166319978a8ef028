//! Calls a protocol's methods by name, without creating bound methods.
#![allow(unsafe_code)]

use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::interrupt;

/// `object.name()`.
pub fn call0<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [object.as_ptr()];
    // SAFETY: attached; the receiver is a live object, and the count is right.
    unsafe { finish(object.py(), vectorcall(name, &arguments)) }
}

/// `object.name(argument)`.
pub fn call1<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    argument: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [object.as_ptr(), argument.as_ptr()];
    // SAFETY: as in `call0`.
    unsafe { finish(object.py(), vectorcall(name, &arguments)) }
}

/// `object.name(first, second)`.
pub fn call2<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [object.as_ptr(), first.as_ptr(), second.as_ptr()];
    // SAFETY: as in `call0`.
    unsafe { finish(object.py(), vectorcall(name, &arguments)) }
}

/// `future.set_result(None)`, unless it is cancelled.
pub fn complete(future: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = future.py();
    let none = py.None();
    let Err(error) = call1(future, intern!(py, "set_result"), none.bind(py)) else {
        return Ok(());
    };
    // Checked only now, because it is rare.
    match call0(future, intern!(py, "cancelled"))?.is_truthy()? {
        true => Ok(()),
        false => Err(error),
    }
}

/// # Safety
/// Attached; `arguments` are live objects, the receiver first.
unsafe fn vectorcall(
    name: &Bound<'_, PyString>,
    arguments: &[*mut ffi::PyObject],
) -> *mut ffi::PyObject {
    // SAFETY: by the contract above.
    unsafe {
        ffi::PyObject_VectorcallMethod(
            name.as_ptr(),
            arguments.as_ptr(),
            arguments.len(),
            std::ptr::null_mut(),
        )
    }
}

/// # Safety
/// `result` is a new reference, or null with an exception set.
unsafe fn finish(py: Python<'_>, result: *mut ffi::PyObject) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: by the contract above.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}

/// Whether an error must end the program instead of being reported.
pub fn is_fatal(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PySystemExit>(py)
        || error.is_instance_of::<PyKeyboardInterrupt>(py)
        || interrupt::is_interrupted(py, error)
}
