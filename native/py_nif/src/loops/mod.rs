//! A native loop in the VM: the core's loop plus its keeper, its requests and its orderly end.
//!
//! | module | contents |
//! |---|---|
//! | `native_loop` | the loop itself: how it begins, is kept, is woken and ends |
//! | `keeper` | the Erlang process that arms it (a `py_event_router` or a `py_event_worker`) |
//! | [`registry`] | all loops of the node, the default loop and the default router |
//! | `refs` | the terms that Erlang holds |
//! | `erlang_side`, `polling` | loops driven from Erlang: pending events, and waiting for them |
//! | `requests` | requests of Erlang to a loop, as far as the loop itself deals with them |
//! | `assignment`, [`busy_share`], `loop_thread` | where a loop that Erlang started runs; how busy its thread is; thread names |
//! | [`posts`] | replies and messages for a loop's Python code |
//! | [`signals`] | signals of the operating system |
//! | [`sleeps`] | threads that sleep on a timer of the VM |
//! | [`origin`] | which process asked for the Python code that runs |
//! | `task_list` | the tasks of a loop, as it has listed them last |
//! | `pulse`, [`watchdog`] | how long a turn has lasted, and waking `py_watchdog` |
//! | [`recorder`], `slow_turns` | what a loop did last; the stacks of turns that take long |
//! | [`profiled`] | the name of the task that runs, while a profile is taken |

mod assignment;
pub mod busy_share;
mod erlang_side;
mod keeper;
mod loop_thread;
mod native_loop;
pub mod origin;
mod polling;
pub mod posts;
pub mod profiled;
mod pulse;
pub mod recorder;
mod refs;
pub mod registry;
mod requests;
pub mod signals;
pub mod sleeps;
mod slow_turns;
mod task_list;
pub mod watchdog;

pub use assignment::{Assignment, ChooseRunner, LoopRunner};
pub use erlang_side::{Receiver, kind_atom};
pub use keeper::Role;
pub use loop_thread::LoopThread;
pub use native_loop::NativeLoop;
pub use origin::{Origin, Target, begin_traces, traces};
pub use polling::PollWait;
pub use posts::{Posted, Recipient};
pub use pulse::Pulse;
pub use refs::{FdRef, LoopRef, PollSet, Timer, TimerRef};
pub use requests::Requests;
pub use task_list::TaskList;
