//! The NIF library of erlang_loop: what the Erlang module `py_nif` calls.
//!
//! | module | contents |
//! |---|---|
//! | [`load`] | how the VM loads this library, and its resource types |
//! | [`beam`] | the VM's C API made safe: messages, resources, `enif_select`, terms |
//! | [`cpython`] | CPython's C API made safe: the interpreter, its threads, contexts, GIL cells |
//! | [`convert`] | values in both directions |
//! | [`loops`] | a native loop in the VM: its keeper, its inbox, its end |
//! | [`runners`] | which thread runs which loop |
//! | [`asyncio`] | the loop class that Python sees, its handles, its turns |
//! | [`io`] | from socket to protocol and back: transports, TLS, system calls |
//! | [`http`] | the engine of the ASGI server: from bytes to an application's task and back |
//! | [`requests`] | Erlang asks Python: from the request to its one reply |
//! | [`questions`] | Python asks Erlang: from the question to its one reply |
//! | [`mailboxes`] | messages and channels from Erlang processes to Python code |
//! | [`output`] | what Python prints and logs, on its way to group leaders and to `logger` |
//! | [`erlang_module`] | the native half of Python's package `erlang` |
//! | [`native_module`] | the native module that Python imports |
//! | [`api`] | the functions that Erlang calls: decode, one call down, encode |
//!
//! `scripts/import_order` checks which folder may use which.
#![deny(unsafe_code)]
#![allow(
    missing_docs,
    reason = "nothing in a cdylib is visible to other crates"
)]

mod api;
mod asyncio;
mod atoms;
mod beam;
mod convert;
mod cpython;
mod erlang_module;
mod error;
mod http;
mod io;
mod load;
mod loops;
mod mailboxes;
mod native_module;
mod output;
mod questions;
mod requests;
mod runners;
