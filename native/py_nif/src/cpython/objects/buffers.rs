//! Memory of Python's objects: `bytes` that are filled by a system call, buffers of other objects,
//! and Erlang's binaries as buffers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::{ptr, slice};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::beam::kept_binary::KeptBinary;

unsafe extern "C" {
    /// Documented by CPython, but not declared by PyO3.
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, length: ffi::Py_ssize_t) -> c_int;
}

/// A `bytes` object of what `fill` writes to the beginning of memory of `most` bytes, and returns.
/// The outer error is Python's: no memory.
pub fn filled_bytes<'py, E>(
    py: Python<'py>,
    most: usize,
    fill: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
) -> PyResult<Result<Bound<'py, PyBytes>, E>> {
    // SAFETY: attached; a new object without content, or null with an exception set. No one else
    // has a reference, so its memory is ours to write, and to resize. What `fill` returns is
    // initialized, and the beginning of that memory. Resizing leaves the smaller object in `object`,
    // or null with an exception set.
    unsafe {
        let made = ffi::PyBytes_FromStringAndSize(ptr::null(), most as ffi::Py_ssize_t);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let memory = ffi::PyBytes_AS_STRING(made.as_ptr()).cast_mut().cast();
        let length = match fill(slice::from_raw_parts_mut(memory, most)) {
            Ok(written) => {
                assert!(ptr::eq(written.as_ptr(), memory.cast()) && written.len() <= most);
                written.len()
            }
            Err(error) => return Ok(Err(error)),
        };
        let mut object = made.into_ptr();
        match _PyBytes_Resize(&raw mut object, length as ffi::Py_ssize_t) {
            0 => Ok(Ok(Bound::from_owned_ptr(py, object).cast_into_unchecked())),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Calls `fill` with the buffer of an object, and releases the buffer. The outer error is Python's:
/// the object's buffer is not writable or has gaps, or it has none.
pub fn fill_buffer<R>(
    object: &Bound<'_, PyAny>,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> R,
) -> PyResult<R> {
    let mut view = MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: attached, and `view` has room for what the call fills in if it returns 0. Then the
    // export keeps the memory in place, writable and without gaps until it is released, once.
    unsafe {
        if ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_WRITABLE) != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let mut view = view.assume_init();
        let result = match view.len {
            0 => fill(&mut []),
            length => fill(slice::from_raw_parts_mut(view.buf.cast(), length as usize)),
        };
        ffi::PyBuffer_Release(&raw mut view);
        Ok(result)
    }
}

pub fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: attached, and a live object.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
}

/// As `bytes(object)`, without the call.
pub fn copied_bytes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: attached, and a live object; the result is a new reference, or null with an
    // exception.
    let bytes = unsafe {
        Bound::from_owned_ptr_or_err(object.py(), ffi::PyBytes_FromObject(object.as_ptr()))
    };
    Ok(bytes?.cast_into::<PyBytes>()?)
}

/// Exports the bytes of a binary, read-only, and keeps the binary alive. Holds no Python object, so
/// the garbage collector need not know it; any thread may free it.
#[pyclass(frozen, module = "erlang")]
pub struct BinaryMemory(pub KeptBinary);

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
