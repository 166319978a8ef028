//! The ends of pipes: `_native.ReadPipeTransport` ([`read_pipe`]) and `_native.WritePipeTransport`
//! ([`write_pipe`]), with the common base [`pipe`].

pub mod pipe;
pub mod read_pipe;
pub mod write_pipe;
