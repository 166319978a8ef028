//! The Erlang VM as this library needs it.
//!
//! `entry` is how the VM loads us, `resource` are Rust values it counts references of, `select`
//! asks its poller, `message` talks to its processes, `names` finds them, `own_env` keeps terms
//! for our threads, `terms` takes terms apart, `errno` names
//! errors as Erlang does, `forked` tells when there is no VM.
//! Together with `python/` this is where unsafe code lives.

mod entry;
pub mod errno;
pub mod fd;
pub mod forked;
pub mod message;
pub mod names;
pub mod own_env;
pub mod resource;
pub mod select;
pub mod signal;
pub mod terms;
