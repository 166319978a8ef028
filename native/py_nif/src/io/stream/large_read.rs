//! Large messages: received straight into their own `bytes` object instead of being copied there
//! from the loop's buffer (`bench/`: tcp_64k). `reading` calls this for a connection whose last
//! message was large.

use std::os::fd::RawFd;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cpython::objects::buffers::filled_bytes;
use crate::io::sys::socket_calls;
use crate::io::sys::socket_calls::Stop;

/// Below the size from which glibc maps and unmaps each object (128 KiB).
const LARGE_READ: usize = 64 * 1024;

/// A message is large from here on: copying it costs more than shrinking a larger object.
pub const LARGE: usize = 16 * 1024;

/// Receives at most [`LARGE_READ`] bytes. The outer error is Python's: no memory.
pub fn recv<'py>(py: Python<'py>, fd: RawFd) -> PyResult<Result<Bound<'py, PyBytes>, Stop>> {
    filled_bytes(py, LARGE_READ, |memory| socket_calls::recv_into(fd, memory))
}
