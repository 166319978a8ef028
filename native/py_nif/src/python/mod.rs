//! CPython inside the VM.
//!
//! `interpreter` starts it, once; `main_thread` is Python's main thread, where programs run, or
//! one `command` line;
//! `module` is what they import. `loop_class` is the native loop: its callbacks are `handle` and
//! `timer_handle`, its fds `fd_callbacks`, and `turn` runs it, `waiting` when there is nothing
//! to run.

mod command;
mod context;
mod errors;
mod fd_callbacks;
mod gil_cell;
mod handle;
mod interpreter;
mod loop_class;
pub mod main_thread;
mod module;
mod timer_handle;
mod turn;
mod waiting;

pub use interpreter::Settings;
