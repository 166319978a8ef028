//! Datagrams: `_native.DatagramTransport`. [`transport`] is the class, [`peers`] caches the Python
//! objects of addresses.

pub mod peers;
pub mod transport;
