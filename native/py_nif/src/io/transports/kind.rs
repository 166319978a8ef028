//! Where the kinds of transports differ; the base calls this.

use event_loop::Direction;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use super::base::Transport;
use crate::cpython::objects::finalizer::HasFinalizer;
use crate::io::datagram::transport::DatagramTransport;
use crate::io::pipes::read_pipe::ReadPipeTransport;
use crate::io::pipes::write_pipe::WritePipeTransport;
use crate::io::stream::transport::StreamTransport;

/// How many there are.
pub const KINDS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    Stream,
    Datagram,
    ReadPipe,
    WritePipe,
}

impl TransportKind {
    pub fn is_socket(self) -> bool {
        matches!(self, TransportKind::Stream | TransportKind::Datagram)
    }

    /// The class in `python/erlang_loop/loop/io/transports.py` that `isinstance` sees.
    pub fn class_name(self) -> &'static str {
        match self {
            TransportKind::Stream => "_ErlangSocketTransport",
            TransportKind::Datagram => "_ErlangDatagramTransport",
            TransportKind::ReadPipe => "_ErlangReadPipeTransport",
            TransportKind::WritePipe => "_ErlangWritePipeTransport",
        }
    }

    /// Whether an error comes from the network or the other end: such errors are usual ends of
    /// connections.
    pub fn expects(self, error: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self {
            // A terminal that hangs up reports EIO; nothing else is expected of the read end.
            TransportKind::ReadPipe if error.is_instance_of::<PyOSError>() => {
                error.getattr("errno")?.eq(libc::EIO)
            }
            _ => Ok(error.is_instance_of::<PyOSError>()),
        }
    }
}

macro_rules! has_finalizer {
    ($($kind:ident: $class:ty),+) => {$(
        impl HasFinalizer for $class {
            const NUMBER: usize = TransportKind::$kind as usize;

            /// A closed transport has nothing to warn about (`Transport::forgotten`).
            fn needs_finalizer(slf: Borrowed<'_, '_, Self>) -> bool {
                let transport = slf.cast::<Transport>();
                transport.is_ok_and(|transport| !transport.get().is_closed(slf.py()))
            }
        }
    )+};
}

has_finalizer!(
    Stream: StreamTransport,
    Datagram: DatagramTransport,
    ReadPipe: ReadPipeTransport,
    WritePipe: WritePipeTransport
);

impl Transport {
    /// The fd is ready, inside the context of the watch.
    pub fn move_data(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        match (slf.get().kind, direction) {
            (TransportKind::Stream, Direction::Read) => StreamTransport::read_ready(slf.cast()?),
            (TransportKind::Stream, Direction::Write) => StreamTransport::write_ready(slf.cast()?),
            (TransportKind::Datagram, Direction::Read) => {
                DatagramTransport::read_ready(slf.cast()?)
            }
            (TransportKind::Datagram, Direction::Write) => {
                DatagramTransport::write_ready(slf.cast()?)
            }
            (TransportKind::ReadPipe, Direction::Read) => {
                ReadPipeTransport::read_ready(slf.cast()?)
            }
            (TransportKind::ReadPipe, Direction::Write) => Ok(()),
            (TransportKind::WritePipe, Direction::Read) => {
                WritePipeTransport::peer_closed(slf.cast()?)
            }
            (TransportKind::WritePipe, Direction::Write) => {
                WritePipeTransport::write_ready(slf.cast()?)
            }
        }
    }

    /// Whether to watch for reading once the protocol has its transport.
    pub fn reads_at_start(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match slf.get().kind {
            TransportKind::WritePipe => WritePipeTransport::watches_peer(slf.cast()?),
            _ => Ok(slf.get().reads(slf.py())),
        }
    }

    /// Sends what waits only for the end of the callback.
    pub fn flush_deferred(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().kind {
            TransportKind::Stream => StreamTransport::flush_deferred(slf.cast()?),
            _ => Ok(()),
        }
    }

    pub fn has_output(slf: &Bound<'_, Self>) -> PyResult<bool> {
        match slf.get().kind {
            TransportKind::Stream => StreamTransport::has_output(slf.cast()?),
            TransportKind::Datagram => DatagramTransport::has_output(slf.cast()?),
            TransportKind::ReadPipe => Ok(false),
            TransportKind::WritePipe => WritePipeTransport::has_output(slf.cast()?),
        }
    }

    pub fn discard_output(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().kind {
            TransportKind::Stream => StreamTransport::discard_output(slf.cast()?),
            TransportKind::Datagram => DatagramTransport::discard_output(slf.cast()?),
            TransportKind::ReadPipe => Ok(()),
            TransportKind::WritePipe => WritePipeTransport::discard_output(slf.cast()?),
        }
    }
}
