//! A native loop and its place in the VM.
//!
//! `native_loop` is the loop itself: the core plus its keeper, its end. `keeper` is the Erlang
//! process that arms it (a `py_event_router` or a `py_event_worker`), `erlang_side` what a loop
//! without Python has pending, `polling` how that is collected and waited for, `posts` news for
//! loops of Python, `refs` the terms Erlang holds, `registry` all loops of the node, `requests`
//! what Erlang asked of a loop, `seat` where a loop that Erlang started runs, `signals` what they
//! hear from the operating system. `sleeps` are threads that wait for the VM's time without a loop,
//! `unheard` tasks whose callers nobody listens for yet, `watchdog` who looks after loops that are in a
//! turn, and `watchdog_timer` what wakes it.

mod erlang_side;
mod keeper;
mod native_loop;
mod polling;
pub mod posts;
mod pulse;
mod refs;
pub mod registry;
mod requests;
mod seat;
pub mod signals;
pub mod sleeps;
mod unheard;
pub mod watchdog;
mod watchdog_timer;

pub use erlang_side::{kind_atom, Receiver};
pub use keeper::Role;
pub use native_loop::NativeLoop;
pub use polling::Waiting;
pub use posts::{Posted, Recipient};
pub use pulse::Pulse;
pub use refs::{FdRef, LoopRef, PollSet, Timer, TimerRef};
pub use requests::{Refused, RequestLimits, Requests, Work};
pub use seat::{Place, Runs, Seat};
pub use watchdog_timer::WatchdogTimer;
