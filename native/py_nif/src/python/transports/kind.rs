//! What each kind of transport does in its own way, when the base asks.

use event_loop::Direction;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use super::base::Transport;
use super::{DatagramTransport, ReadPipeTransport, StreamTransport, WritePipeTransport};

/// How many there are.
pub const KINDS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Stream,
    Datagram,
    ReadPipe,
    WritePipe,
}

impl Kind {
    pub fn is_socket(self) -> bool {
        matches!(self, Kind::Stream | Kind::Datagram)
    }

    /// The class in `python/erlang_loop/transports.py` that a transport is seen as.
    pub fn class_name(self) -> &'static str {
        match self {
            Kind::Stream => "_ErlangSocketTransport",
            Kind::Datagram => "_ErlangDatagramTransport",
            Kind::ReadPipe => "_ErlangReadPipeTransport",
            Kind::WritePipe => "_ErlangWritePipeTransport",
        }
    }

    /// Whether an error is the network's, or the other end's: connections end like that.
    pub fn expects(self, error: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self {
            // A terminal that hangs up says EIO; nothing else is expected of the read end.
            Kind::ReadPipe if error.is_instance_of::<PyOSError>() => {
                error.getattr("errno")?.eq(libc::EIO)
            }
            _ => Ok(error.is_instance_of::<PyOSError>()),
        }
    }
}

impl Transport {
    /// The fd is ready, inside the context of the watch.
    pub(super) fn move_data(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        match (slf.get().kind, direction) {
            (Kind::Stream, Direction::Read) => StreamTransport::read_ready(slf.cast()?),
            (Kind::Stream, Direction::Write) => StreamTransport::write_ready(slf.cast()?),
            (Kind::Datagram, Direction::Read) => DatagramTransport::read_ready(slf.cast()?),
            (Kind::Datagram, Direction::Write) => DatagramTransport::write_ready(slf.cast()?),
            (Kind::ReadPipe, Direction::Read) => ReadPipeTransport::read_ready(slf.cast()?),
            (Kind::ReadPipe, Direction::Write) => Ok(()),
            (Kind::WritePipe, Direction::Read) => WritePipeTransport::peer_closed(slf.cast()?),
            (Kind::WritePipe, Direction::Write) => WritePipeTransport::write_ready(slf.cast()?),
        }
    }

    /// Whether the read direction is to be watched once the protocol knows its transport.
    pub(super) fn reads_at_start(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match slf.get().kind {
            Kind::WritePipe => WritePipeTransport::watches_peer(slf.cast()?),
            _ => Ok(slf.get().reads(slf.py())),
        }
    }

    /// Sends what waits for the end of the callback only.
    pub(super) fn flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().kind {
            Kind::Stream => StreamTransport::flush_deferred(slf.cast()?),
            _ => Ok(()),
        }
    }

    pub(super) fn has_output(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match slf.get().kind {
            Kind::Stream => StreamTransport::has_output(slf.cast()?),
            Kind::Datagram => DatagramTransport::has_output(slf.cast()?),
            Kind::ReadPipe => Ok(false),
            Kind::WritePipe => WritePipeTransport::has_output(slf.cast()?),
        }
    }

    pub(super) fn discard_output(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().kind {
            Kind::Stream => StreamTransport::discard_output(slf.cast()?),
            Kind::Datagram => DatagramTransport::discard_output(slf.cast()?),
            Kind::ReadPipe => Ok(()),
            Kind::WritePipe => WritePipeTransport::discard_output(slf.cast()?),
        }
    }
}
