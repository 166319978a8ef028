//! Connected byte streams over sockets: `_native.StreamTransport`.
//!
//! | module | contents |
//! |---|---|
//! | [`transport`] | the class |
//! | [`reading`], [`reading_way`] | from the socket to the protocol; how a protocol takes data |
//! | [`large_read`] | receiving large messages without a copy |
//! | [`stream_reader`] | feeding asyncio's `StreamReader` |
//! | [`writing`], [`write_queue`], [`written`] | from the protocol to the socket |

pub mod large_read;
pub mod reading;
pub mod reading_way;
pub mod stream_reader;
pub mod transport;
pub mod write_queue;
pub mod writing;
pub mod written;
