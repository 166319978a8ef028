//! The core of an event loop: what a loop waits for, and how it sleeps and is woken.
//!
//! Plain Rust without the Erlang VM or Python, so that unit tests, loom and Miri reach all of it.
//! The native library builds its loops on [`EventLoop`]; the modules below are its parts.
//!
//! | module | idea |
//! |---|---|
//! | [`awaited`] | a value that threads wait for |
//! | [`clock`] | the clock of all deadlines |
//! | [`counters`] | what a loop has done so far |
//! | [`epoll`] | the set of watched fds, and the buffer for its events |
//! | [`error`] | the errors of the core |
//! | [`event_loop`](EventLoop) | the parts combined |
//! | [`inbox`] | work posted by other threads |
//! | [`interruptible`] | interrupting one call of a thread, and no other |
//! | [`life`] | new, running, stopping, closed |
//! | [`parking`] | sleep and wake without losing a wake-up |
//! | [`pending`] | events kept until a caller polls |
//! | [`pulse`] | how long a loop has been running callbacks |
//! | [`signal_set`] | signals on their way to a loop |
//! | [`timers`] | deadlines, earliest first |
//! | [`wait`] | how long to spin, and what keeps the next deadline |
//! | [`wake_latency`] | how much earlier to wake for a deadline |
//! | [`watcher`] | whether the watcher over all loops sleeps |
//! | [`watches`] | which fds are watched, and how |
#![deny(unsafe_code)] // allowed in `sys` only

#[cfg(not(target_os = "linux"))]
compile_error!("only `sys` is missing for this system: it needs a kqueue version of its functions");

pub mod awaited;
pub mod clock;
pub mod counters;
pub mod epoll;
pub mod error;
// This module uses real eventfds and epoll sets; the model checker has neither.
#[cfg(not(loom))]
mod event_loop;
pub mod inbox;
pub mod interruptible;
pub mod life;
pub mod parking;
pub mod pending;
pub mod pulse;
pub mod signal_set;
mod sync;
pub mod sys;
pub mod timers;
pub mod wait;
pub mod wake_latency;
pub mod watcher;
pub mod watches;

pub use awaited::Awaited;
pub use clock::now_ns;
pub use counters::{Counters, CountersSnapshot};
pub use epoll::{EpollSet, EventBuffer, RawEvent};
pub use error::{Error, Result};
#[cfg(not(loom))]
pub use event_loop::EventLoop;
pub use inbox::{Inbox, PushError};
pub use interruptible::Interruptible;
pub use life::{Life, State};
pub use parking::{Parked, Parking, TIMER_TOKEN, WAKE_TOKEN, WakeRunner};
pub use pending::{Kind, Pending};
pub use pulse::Pulse;
pub use signal_set::SignalSet;
pub use timers::{Cancel, TimerHeap};
pub use wait::{SpinBudget, TimerPlan, WaitPolicy, plan_timer};
pub use wake_latency::WakeLatency;
pub use watcher::Watcher;
pub use watches::{Direction, Mode, Ready, WatchId, Watches};
