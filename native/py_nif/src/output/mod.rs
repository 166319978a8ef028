//! What Python prints and logs, on its way to Erlang processes.
//!
//! Text goes to the group leader of the process that asked for the code (`origin`), or of the
//! process that owns the loop it runs on, or to `user`.
//!
//! | module | contents |
//! |---|---|
//! | [`python_output`] | the functions that the package `erlang_output` calls |
//! | [`lines`] | unfinished lines of each thread |
//! | [`device`] | a process that takes text, and how much of it may be in flight |
//! | [`events`] | log events for `py_logger` |
//!
//! Only `python_output` uses Python.

pub mod device;
pub mod events;
pub mod lines;
pub mod python_output;
