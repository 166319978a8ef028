//! Native transports: the path of every byte between a socket and a protocol.
//!
//! `base` is what they have in common, from its `beginning` to its `ending`; `kind` is where they
//! differ. `stream` is a connected byte stream (reading in `stream_read` and `large_read`, writing in
//! `stream_write`, what waits to be sent in `write_queue`; `reading_way` is what a protocol wants its
//! data as, `stream_reader` one such), `datagram` the other kind of socket,
//! `read_pipe` and `write_pipe` the ends of a `pipe`; `accept` and `connecting` are where connections
//! come from.
//! `open_file`, `address`, `pipe_calls` and `socket_calls` are the ways to the kernel, `protocol`,
//! `python_sockets` and `extra_info` those to Python; `table` says which fd has a transport; `finalizer` is for what a program forgets to close.

mod accept;
mod address;
mod base;
mod beginning;
mod connecting;
mod datagram;
mod description;
mod ending;
mod extra_info;
mod finalizer;
mod flow;
mod kind;
mod large_read;
mod methods;
mod open_file;
mod peers;
mod pipe;
mod pipe_calls;
mod protocol;
mod python_sockets;
mod read_pipe;
mod reading_way;
mod server;
pub mod socket_calls;
mod stream;
mod stream_read;
mod stream_reader;
mod stream_write;
mod table;
mod watching;
mod write_pipe;
mod write_queue;
mod written;

pub use accept::Acceptor;
pub use address::ip_family;
pub use base::Transport;
pub use connecting::connect;
pub use datagram::DatagramTransport;
pub use open_file::FileObject;
pub use pipe::PipeTransport;
pub use protocol::{call0, call1, is_fatal};
pub use read_pipe::ReadPipeTransport;
pub use stream::StreamTransport;
pub use table::TransportTable;
pub use write_pipe::WritePipeTransport;

use kind::Kind;
use pyo3::prelude::*;

/// Puts the classes into the native module.
pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<Acceptor>()?;
    module.add_class::<Transport>()?;
    module.add_class::<StreamTransport>()?;
    module.add_class::<DatagramTransport>()?;
    module.add_class::<PipeTransport>()?;
    module.add_class::<ReadPipeTransport>()?;
    module.add_class::<WritePipeTransport>()?;
    methods::add(py)?;
    finalizer::install::<StreamTransport>(py, Kind::Stream)?;
    finalizer::install::<DatagramTransport>(py, Kind::Datagram)?;
    finalizer::install::<ReadPipeTransport>(py, Kind::ReadPipe)?;
    finalizer::install::<WritePipeTransport>(py, Kind::WritePipe)
}
