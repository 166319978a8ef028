//! CPython inside the VM.
//!
//! `interpreter` starts it, once; `main_thread` is Python's main thread, where programs run, or
//! one `command` line;
//! `module` is what they import. `loop_class` is the native loop: its callbacks are `handle` and
//! `timer_handle`, its fds `fd_callbacks`, and `turn` runs it, `waiting` when there is nothing
//! to run. `between` are microtasks and priorities, `blocking` names handlers that take long.
//!
//! Requests of Erlang: `calls` runs one, on `call_threads` or on a loop (`loop_requests`), and
//! `loop_thread` is the thread of a loop that Erlang started. Streams are requests too:
//! `loop_streams` of asynchronous generators, `plain_streams` of all that call threads iterate
//! over.

mod between;
mod blocking;
pub mod call_threads;
pub mod calls;
mod collector;
mod command;
mod command_signals;
mod context;
mod errors;
mod fd_callbacks;
mod gil_cell;
mod handle;
mod interpreter;
mod loop_class;
mod loop_core;
mod loop_requests;
mod loop_signals;
mod loop_streams;
pub mod loop_thread;
pub mod main_thread;
mod module;
pub mod plain_streams;
mod read_buffer;
mod ready;
mod sleep;
mod sock_operation;
pub mod stacks;
#[cfg(Py_GIL_DISABLED)]
mod thread_lock;
mod timer_handle;
mod transports;
mod turn;
mod values;
mod waiting;

pub use interpreter::Settings;
