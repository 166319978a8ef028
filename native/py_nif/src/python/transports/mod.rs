//! Native transports: the path of every byte between a socket and a protocol.
//!
//! `stream` is a connected byte stream (TCP, Unix): reading in `stream_read`, writing in
//! `stream_write`, what waits to be sent in `write_queue`, its limits in `flow`. `socket_calls`
//! are the system calls.

mod flow;
mod protocol;
pub mod socket_calls;
pub mod stream;
mod stream_read;
mod stream_write;
mod write_queue;

pub use stream::StreamTransport;
