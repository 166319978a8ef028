//! The loop as Python sees it.
//!
//! | module | contents |
//! |---|---|
//! | [`loop_class`] | `_native.Loop`, the native base of `ErlangEventLoop` |
//! | [`turn`] | one turn: timeout, wait, take, run |
//! | [`handles`] | callbacks that wait for their turn or their time |
//! | [`origin`] | which process asked for the code that runs, as a context variable |
//! | [`task_report`] | the tasks of all loops, as a message |
//! | [`sleep`] | `py_event_loop._erlang_sleep` |

pub mod handles;
pub mod loop_class;
pub mod origin;
pub mod sleep;
pub mod task_report;
pub mod turn;
