//! From socket to protocol and back.
//!
//! | module | contents |
//! |---|---|
//! | [`transports`] | what all transports have in common: beginning, watching, flow control, end |
//! | [`stream`] | connected sockets: reading and writing |
//! | [`datagram`] | datagram sockets |
//! | [`pipes`] | the ends of pipes |
//! | [`tls`] | TLS records between a stream transport and a protocol |
//! | [`sock_operation`] | `loop.sock_recv` and similar methods |
//! | [`sys`] | system calls on sockets and pipes, and addresses |

pub mod datagram;
pub mod pipes;
pub mod sock_operation;
pub mod stream;
pub mod sys;
pub mod tls;
pub mod transports;
