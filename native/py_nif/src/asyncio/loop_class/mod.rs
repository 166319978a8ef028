//! `_native.Loop`, the native base of `erlang_loop.ErlangEventLoop`.
//!
//! | module | contents |
//! |---|---|
//! | [`class`] | the class: its fields, rare methods, garbage collection |
//! | [`parts`] | its fields, in groups |
//! | [`methods`] | the methods that every callback calls |
//! | [`core`](mod@core) | the loop for native code: queue a callback, watch an fd |
//! | [`fd_table`], [`fd_callbacks`] | what is known of each fd; `add_reader` and `add_writer` |
//! | [`transports`] | the transports by fd |
//! | [`futures`] | creating futures and tasks |
//! | [`loop_clock`] | the loop's clock, which a program may replace |
//! | [`loop_signals`] | signal handlers |
//! | [`blocking`] | reporting slow handlers |
//! | [`loop_arguments`], [`request_tasks`] | loops that Erlang started: how they are created, their tasks |
//! | [`read_buffer`] | the memory for received data |

pub mod blocking;
pub mod class;
pub mod core;
pub mod fd_callbacks;
pub mod fd_table;
pub mod futures;
pub mod loop_arguments;
pub mod loop_clock;
pub mod loop_signals;
pub mod methods;
pub mod parts;
pub mod read_buffer;
pub mod request_tasks;
pub mod transports;
