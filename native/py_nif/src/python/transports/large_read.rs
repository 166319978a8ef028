//! Large messages: received where they stay, in a `bytes` of its own, instead of being copied there
//! from the loop's buffer (`bench/`: tcp_64k). Called by `stream_read` for a connection whose last
//! message was large.
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use pyo3::prelude::*;

use super::socket_calls::{self, Stop};
use crate::python::spare_bytes::{Message, SpareBytes};

/// Below what glibc maps and unmaps for each object (128 KiB).
const LARGE_READ: usize = 64 * 1024;

/// A message is large from here on: copying costs more than making a smaller object of a larger.
pub const LARGE: usize = 16 * 1024;

pub enum Received<'py> {
    Data(Message<'py>),
    Stopped(Stop),
}

/// At most [`LARGE_READ`] bytes.
pub fn recv<'py>(py: Python<'py>, fd: RawFd, spare: &SpareBytes) -> PyResult<Received<'py>> {
    let mut message = spare.with_room(py, LARGE_READ)?;
    let memory = message.memory();
    // SAFETY: there is room for so many, and nobody else has it.
    match unsafe { socket_calls::recv_into(fd, memory, message.room()) } {
        Ok(count) if count < LARGE => {
            // SAFETY: so many were written.
            let content = unsafe { std::slice::from_raw_parts(memory, count) };
            let copy = Message::new(py, content);
            spare.hand_back(message);
            Ok(Received::Data(copy))
        }
        // SAFETY: as above.
        Ok(count) => unsafe { message.cut(count).map(Received::Data) },
        Err(stop) => {
            spare.hand_back(message);
            Ok(Received::Stopped(stop))
        }
    }
}
