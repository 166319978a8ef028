//! The memory of Erlang's binaries in Python, without a copy: `{view, Binary}`, and numpy arrays.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use rustler::Term;

use super::error::ConvertError;
use crate::beam::kept_binary::KeptBinary;

/// Exports the bytes of a binary, read-only, and keeps the binary alive. Holds no Python object, so
/// the garbage collector need not know it; any thread may free it.
#[pyclass(frozen, module = "erlang")]
pub struct BinaryMemory(KeptBinary);

#[pymethods]
impl BinaryMemory {
    /// # Safety
    /// Called by CPython with memory for a `Py_buffer`.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().0.as_slice();
        let size = bytes.len() as ffi::Py_ssize_t;
        let memory = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the view refers to `slf`, which keeps the memory; readonly, so it is not
        // written to. CPython raises if `flags` requests writing.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), memory, size, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// The object whose buffer is the binary.
pub fn memory<'py>(py: Python<'py>, binary: Term<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    let kept = KeptBinary::new(binary).ok_or_else(|| ConvertError::refused("not a binary"))?;
    Ok(Bound::new(py, BinaryMemory(kept))?.into_any())
}

/// A `memoryview` of the binary.
pub fn memoryview<'py>(
    py: Python<'py>,
    binary: Term<'_>,
) -> Result<Bound<'py, PyAny>, ConvertError> {
    Ok(PyMemoryView::from(&memory(py, binary)?)?.into_any())
}
