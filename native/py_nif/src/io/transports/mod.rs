//! What all native transports have in common.
//!
//! | module | contents |
//! |---|---|
//! | [`base`] | `_native.Transport`: state, and what Python sees of it |
//! | [`beginning`], [`watching`], [`flow`], [`ending`] | the life of a transport, in this order |
//! | [`kind`] | where stream, datagram and pipe transports differ |
//! | [`methods`] | the methods that every request of a server calls |
//! | [`accept`], [`connecting`], [`server`] | creating connections |
//! | [`open_file`] | the file behind the fd |
//! | [`extra_info`], [`python_sockets`], [`description`] | addresses, socket objects, repr and debug logs |

pub mod accept;
pub mod base;
pub mod beginning;
pub mod connecting;
pub mod description;
pub mod ending;
pub mod extra_info;
pub mod flow;
pub mod kind;
pub mod methods;
pub mod open_file;
pub mod python_sockets;
pub mod server;
pub mod watching;
