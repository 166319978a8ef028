//! Python in this process: its start, its main thread, its end, and forked copies.
//!
//! | module | contents |
//! |---|---|
//! | [`main_thread`] | Python's main thread: starts the interpreter, then runs programs |
//! | [`interpreter`] | starting the embedded CPython |
//! | [`command`], [`command_signals`] | the command line `bin/erlang-loop`, and its signals |
//! | [`finalizing`] | what happens to threads when Python finalizes |
//! | [`process_end`], [`child_processes`] | the end of the operating system process |
//! | [`forked`] | the end of a forked copy |
//! | [`stacks`] | the stacks of all Python threads, for the watchdog |

pub mod child_processes;
pub mod command;
pub mod command_signals;
pub mod finalizing;
pub mod forked;
pub mod interpreter;
pub mod main_thread;
pub mod process_end;
pub mod stacks;
