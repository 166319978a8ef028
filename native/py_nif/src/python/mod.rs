//! CPython inside the VM.
//!
//! `interpreter` starts it, once; `main_thread` is Python's main thread, where programs run, or
//! one `command` line;
//! `module` is what they import. `loop_class` is the native loop: its callbacks are `handle` and
//! `timer_handle`, its time `loop_clock`, its fds `fd_callbacks`, and `turn` runs it, `waiting` when
//! there is nothing to run. `between` are microtasks and priorities, `blocking` names handlers that take long, and
//! `weak_set` is where asyncio keeps its tasks.
//!
//! Python asks Erlang with `erlang_calls`, sends with `erlang_messages` and receives with
//! `erlang_mailbox`; a thread that waits does some `spinning` first.
//!
//! Requests of Erlang: `calls` runs one, on `call_threads` or on a loop (`loop_requests`), which
//! knows its `callers`. A loop that Erlang started (`loop_thread`) gets its place from `runners`: a
//! thread that is a `runner` of loops, each of them `carried`, and whose `load` decides whether it
//! gets more.
//! Streams are requests too: `loop_streams` of asynchronous generators, `plain_streams` of all
//! that call threads iterate over. `origin` knows who asked for the code that runs, and `output`
//! is what that code prints and logs.

mod arguments;
mod between;
mod blocking;
pub mod call_threads;
mod callers;
pub mod calls;
mod carried;
pub mod collector;
mod command;
mod command_signals;
mod context;
pub mod erlang_calls;
mod erlang_mailbox;
mod erlang_messages;
mod errors;
mod fast_method;
mod fd_callbacks;
mod gil_cell;
mod gil_slot;
mod gil_value;
mod handle;
#[cfg(not(Py_GIL_DISABLED))]
mod handle_pool;
mod interpreter;
mod load;
mod loop_class;
mod loop_clock;
mod loop_core;
mod loop_futures;
mod loop_methods;
mod loop_requests;
mod loop_signals;
mod loop_streams;
pub mod loop_thread;
mod loop_traverse;
pub mod main_thread;
mod malloc;
mod module;
mod module_attribute;
mod offer;
pub mod origin;
mod output;
pub mod plain_streams;
mod prefetch;
mod read_buffer;
mod ready;
mod runner;
pub mod runners;
mod sleep;
mod sock_operation;
mod spare_bytes;
pub mod spinning;
pub mod stacks;
#[cfg(Py_GIL_DISABLED)]
mod thread_lock;
#[cfg(Py_3_14)]
mod thread_safe_handle;
mod timer_handle;
mod tls;
mod transports;
mod turn;
mod values;
mod waiting;
mod weak_set;

pub use gil_cell::GilCell;
pub use interpreter::Settings;
