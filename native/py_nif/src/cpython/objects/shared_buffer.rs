//! `erlang.SharedBuffer`: memory that Python fills, and that then reaches Erlang and other operating
//! system processes without a copy.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::beam::sealed_memory::{SealedMemory, WritableMemory};

/// `SharedBuffer(size)`: a writable buffer of zeroes. It is sent once without a copy; what is
/// written to it afterwards is not seen there.
#[pyclass(frozen, module = "erlang")]
pub struct SharedBuffer(Mutex<WritableMemory>);

impl SharedBuffer {
    fn memory(&self) -> MutexGuard<'_, WritableMemory> {
        // Nothing panics in between.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The contents as they are now, if these bytes are all of them. `None`: they were sealed
    /// before, or cannot be.
    pub fn seal(&self, bytes: &[u8]) -> Option<SealedMemory> {
        let mut memory = self.memory();
        let is_all = bytes.as_ptr() == memory.first().cast_const() && bytes.len() == memory.size();
        match is_all && !memory.is_sealed() {
            true => memory.seal().ok(),
            false => None,
        }
    }
}

#[pymethods]
impl SharedBuffer {
    #[new]
    fn new(py: Python<'_>, size: usize) -> PyResult<Self> {
        let memory = py.detach(|| WritableMemory::new(size));
        match memory {
            Ok(memory) => Ok(SharedBuffer(Mutex::new(memory))),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOMEM | libc::ENOSPC | libc::EFBIG | libc::EINVAL) => Err(
                    PyMemoryError::new_err(format!("no memory for {size} bytes that are shared")),
                ),
                _ => Err(error.into()),
            },
        }
    }

    fn __len__(&self) -> usize {
        self.memory().size()
    }

    /// # Safety
    /// Called by CPython with memory for a `Py_buffer`.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (first, size) = {
            let memory = slf.get().memory();
            (memory.first().cast(), memory.size() as ffi::Py_ssize_t)
        };
        // SAFETY: the view refers to `slf`, which keeps the memory in place.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), first, size, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
