//! Data that could not be sent yet.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::RawFd;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::io::sys::socket_calls::Stop;

/// The system call that writes several pieces as one: `sendmsg` for sockets, `writev` for pipes.
pub type WritePieces = fn(RawFd, &[IoSlice<'_>]) -> Result<usize, Stop>;

/// The maximum number of pieces in one call: beyond this, preparing them costs more than a second
/// call.
const PIECES: usize = 64;

/// Takes almost no space before something has to wait, which never happens on most connections.
#[derive(Default)]
pub struct WriteQueue(Option<Box<Unsent>>);

#[derive(Default)]
struct Unsent {
    pieces: VecDeque<Py<PyBytes>>,
    /// How many bytes of the first piece have been sent.
    offset: usize,
    size: usize,
}

impl WriteQueue {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of waiting bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |waiting| waiting.size)
    }

    /// `sent` bytes of the piece have been sent already; only the first piece may have any.
    pub fn push(&mut self, py: Python<'_>, piece: Py<PyBytes>, sent: usize) {
        self.0.get_or_insert_default().push(py, piece, sent);
    }

    /// Sends until the queue is empty or the other side is full. Sent pieces are moved to `gone`,
    /// to be dropped later.
    pub fn send(
        &mut self,
        py: Python<'_>,
        fd: RawFd,
        write: WritePieces,
        gone: &mut Vec<Py<PyBytes>>,
    ) -> Result<(), Stop> {
        match &mut self.0 {
            Some(waiting) => waiting.send(py, fd, write, gone),
            None => Ok(()),
        }
    }

    /// A piece may be an instance of a subclass of `bytes`, which can refer to anything.
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.0 {
            Some(waiting) => waiting.traverse(visit),
            None => Ok(()),
        }
    }

    pub fn clear(&mut self) -> VecDeque<Py<PyBytes>> {
        self.0.take().unwrap_or_default().pieces
    }
}

impl Unsent {
    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.pieces.iter().try_for_each(|piece| visit.call(piece))
    }

    fn push(&mut self, py: Python<'_>, piece: Py<PyBytes>, sent: usize) {
        let length = piece.as_bytes(py).len() - sent;
        if length == 0 {
            return;
        }
        if self.pieces.is_empty() {
            self.offset = sent;
        }
        self.size += length;
        self.pieces.push_back(piece);
    }

    fn send(
        &mut self,
        py: Python<'_>,
        fd: RawFd,
        write: WritePieces,
        gone: &mut Vec<Py<PyBytes>>,
    ) -> Result<(), Stop> {
        while !self.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let count = self.pieces.len().min(PIECES);
            let mut offered = 0;
            for (index, piece) in self.pieces.iter().take(PIECES).enumerate() {
                let skip = if index == 0 { self.offset } else { 0 };
                let bytes = &piece.as_bytes(py)[skip..];
                offered += bytes.len();
                slices[index] = IoSlice::new(bytes);
            }
            let sent = write(fd, &slices[..count])?;
            self.advance(py, sent, gone);
            if sent < offered {
                return Err(Stop::WouldBlock);
            }
        }
        Ok(())
    }

    fn advance(&mut self, py: Python<'_>, sent: usize, gone: &mut Vec<Py<PyBytes>>) {
        self.size -= sent;
        let mut left = sent + self.offset;
        self.offset = 0;
        while let Some(first) = self.pieces.front() {
            let length = first.as_bytes(py).len();
            if left < length {
                self.offset = left;
                return;
            }
            left -= length;
            gone.extend(self.pieces.pop_front());
        }
    }
}
