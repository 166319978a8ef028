//! The NIF library of erlang_loop: what the Erlang module `py_nif` calls.
//!
//! | module | what lives there |
//! |---|---|
//! | [`api`] | what Erlang may call: decode, one call down, encode |
//! | [`beam`] | terms, messages, resources, `enif_select`; all that is particular to the VM |
//! | [`convert`] | values across the border |
//! | [`loops`] | a native loop with its place in the VM: who arms it, what is pending, its end |
//! | [`mailboxes`] | messages of Erlang to Python code |
//! | [`output`] | what Python prints and logs, on its way to group leaders and to `logger` |
//! | [`python`] | the interpreter, its threads, and the loop as Python sees it |
//! | [`questions`] | what Python asked of Erlang, likewise |
//! | [`tasks`] | what Erlang asked of Python, from the question to its one answer |
#![deny(unsafe_code)]
#![allow(
    missing_docs,
    reason = "nothing in a cdylib is visible to other crates"
)]

mod api;
mod atoms;
mod beam;
mod convert;
mod error;
mod loops;
mod mailboxes;
mod output;
mod python;
mod questions;
mod tasks;
