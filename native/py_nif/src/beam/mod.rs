//! The C API of the Erlang VM, made safe.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | sending messages to processes, from any thread |
//! | [`names`] | finding registered processes |
//! | [`resource`] | Rust values that the VM counts references to |
//! | [`select`] | the VM's poller |
//! | [`terms`] | taking terms apart and building them without copies |
//! | [`kept_binary`] | binaries whose memory Python uses |
//! | [`own_env`] | environments in which our own threads keep terms |
//! | [`errno`], [`signal`] | error numbers and signals under their Erlang names |
//! | [`fd`] | file descriptors by number |
//! | [`forked`] | whether this process is a forked copy, in which there is no VM |
//! | [`sealed_memory`] | memory that processes share and none can change |
//! | [`shared_words`] | numbers in memory that processes share |
//! | [`imports`] | replacing a function that a shared library imports |
//!
//! Unsafe code belongs in this folder, in `cpython/` and in `io/sys/`.

pub mod errno;
pub mod fd;
pub mod forked;
pub mod imports;
pub mod kept_binary;
pub mod message;
pub mod names;
pub mod own_env;
pub mod resource;
pub mod sealed_memory;
pub mod select;
pub mod shared_words;
pub mod signal;
pub mod terms;
