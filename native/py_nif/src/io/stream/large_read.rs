//! Large messages: received straight into their own `bytes` object instead of being copied there
//! from the loop's buffer (`bench/`: tcp_64k). `reading` calls this for a connection whose last
//! message was large.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::RawFd;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::io::sys::socket_calls;
use crate::io::sys::socket_calls::Stop;

/// Below the size from which glibc maps and unmaps each object (128 KiB).
const LARGE_READ: usize = 64 * 1024;

/// A message is large from here on: copying it costs more than shrinking a larger object.
pub const LARGE: usize = 16 * 1024;

unsafe extern "C" {
    /// Documented by CPython, but not declared by PyO3.
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, length: ffi::Py_ssize_t) -> c_int;
}

/// Receives at most [`LARGE_READ`] bytes. The outer error is Python's: no memory.
pub fn recv<'py>(py: Python<'py>, fd: RawFd) -> PyResult<Result<Bound<'py, PyBytes>, Stop>> {
    // SAFETY: attached; a new object without content, or null with an exception set.
    let message = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), LARGE_READ as isize);
        Bound::from_owned_ptr_or_err(py, object)?
    };
    // SAFETY: there is room for LARGE_READ bytes, and no one else has a reference yet.
    let received = unsafe {
        let memory = ffi::PyBytes_AS_STRING(message.as_ptr()).cast_mut().cast();
        socket_calls::recv_into(fd, memory, LARGE_READ)
    };
    match received {
        // SAFETY: as many bytes were written as `cut` keeps.
        Ok(count) => unsafe { cut(message, count).map(Ok) },
        Err(stop) => Ok(Err(stop)),
    }
}

/// # Safety
/// `message` has this one reference, and its first `length` bytes were written.
unsafe fn cut(message: Bound<'_, PyAny>, length: usize) -> PyResult<Bound<'_, PyBytes>> {
    let py = message.py();
    let mut object = message.into_ptr();
    // SAFETY: by the contract above. Afterwards `object` is the smaller one, or null with an
    // exception set.
    unsafe {
        match _PyBytes_Resize(&raw mut object, length as ffi::Py_ssize_t) {
            0 => Ok(Bound::from_owned_ptr(py, object).cast_into_unchecked()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}
