//! Native transports: the path of every byte between a socket and a protocol.
//!
//! `base` is what they have in common, `stream` a connected byte stream (reading in `stream_read`,
//! writing in `stream_write`, what waits to be sent in `write_queue`), `datagram` the other kind,
//! `accept` where connections come from. `flow` has the limits of what may wait; `open_file`,
//! `address` and `socket_calls` are the ways to the kernel, `protocol` the way to Python.

mod accept;
mod address;
mod base;
mod datagram;
mod flow;
mod open_file;
mod protocol;
mod socket_calls;
mod stream;
mod stream_read;
mod stream_write;
mod write_queue;

pub use accept::Acceptor;
pub use base::Transport;
pub use datagram::DatagramTransport;
pub use protocol::is_fatal;
pub use stream::StreamTransport;
