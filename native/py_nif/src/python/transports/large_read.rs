//! Large messages: received where they stay, in a `bytes` of its own, instead of being copied there
//! from the loop's buffer (`bench/`: tcp_64k). Called by `stream_read` for a connection whose last
//! message was large.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::RawFd;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::socket_calls::{self, Stop};

extern "C" {
    /// Documented by CPython, but not declared by PyO3.
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, length: ffi::Py_ssize_t) -> c_int;
}

/// Below what glibc maps and unmaps for each object (128 KiB).
pub const LARGE_READ: usize = 64 * 1024;

/// A message is large from here on: copying costs more than making a smaller object of a larger.
pub const LARGE: usize = 16 * 1024;

pub enum Received<'py> {
    Data(Bound<'py, PyBytes>),
    Stopped(Stop),
}

/// At most [`LARGE_READ`] bytes.
pub fn recv<'py>(py: Python<'py>, fd: RawFd) -> PyResult<Received<'py>> {
    let length = LARGE_READ as ffi::Py_ssize_t;
    // SAFETY: attached; a new object or null with an exception set.
    let mut object = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), length) };
    if object.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the object is a `bytes` with room for so many, and ours alone until it is answered.
    let received = unsafe {
        let memory = ffi::PyBytes_AS_STRING(object).cast_mut().cast::<u8>();
        socket_calls::recv_into(fd, memory, LARGE_READ)
    };
    match received {
        Ok(count) if count < LARGE => {
            // SAFETY: we have the only reference, and `count` of its bytes are written.
            let large =
                unsafe { Bound::from_owned_ptr(py, object).cast_into_unchecked::<PyBytes>() };
            Ok(Received::Data(PyBytes::new(py, &large.as_bytes()[..count])))
        }
        Ok(count) => {
            // SAFETY: we have the only reference. `object` is the smaller one afterwards, or null
            // with an exception set.
            unsafe {
                if count < LARGE_READ
                    && _PyBytes_Resize(&raw mut object, count as ffi::Py_ssize_t) < 0
                {
                    return Err(PyErr::fetch(py));
                }
                let data = Bound::from_owned_ptr(py, object).cast_into_unchecked();
                Ok(Received::Data(data))
            }
        }
        Err(stop) => {
            // SAFETY: we have the only reference.
            unsafe { ffi::Py_DECREF(object) };
            Ok(Received::Stopped(stop))
        }
    }
}
