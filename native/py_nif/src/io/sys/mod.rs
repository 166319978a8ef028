//! System calls on sockets ([`socket_calls`]) and pipes ([`pipe_calls`]) by fd number, and socket
//! addresses ([`address`](mod@address)).

pub mod address;
pub mod pipe_calls;
pub mod socket_calls;
