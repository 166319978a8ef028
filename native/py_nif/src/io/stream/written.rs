//! Written data, as an object that cannot change while it waits.
#![allow(unsafe_code)]

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

/// The object itself, or a copy of one that its owner may change after `write`.
#[inline]
pub fn as_bytes<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    match data.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        Err(_) => copied(data),
    }
}

/// As [`as_bytes`], for one of several: `writelines` accepts everything that has a buffer.
#[inline]
pub fn piece_as_bytes<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    match data.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        // SAFETY: attached, and a live object.
        Err(_) if unsafe { ffi::PyObject_CheckBuffer(data.as_ptr()) } != 0 => copy(data),
        Err(_) => copied(data),
    }
}

/// As `bytes(data)`, without the call.
fn copy<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: attached, and a live object; the result is a new reference, or null with an
    // exception.
    let bytes =
        unsafe { Bound::from_owned_ptr_or_err(data.py(), ffi::PyBytes_FromObject(data.as_ptr())) };
    Ok(bytes?.cast_into::<PyBytes>()?)
}

fn copied<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if data.is_instance_of::<PyByteArray>() || data.is_instance_of::<PyMemoryView>() {
        return copy(data);
    }
    Err(PyTypeError::new_err(format!(
        "data argument must be a bytes-like object, not {}",
        data.get_type().name()?.repr()?
    )))
}
