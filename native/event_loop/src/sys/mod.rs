//! What the core asks of the kernel beyond one call of rustix. `clock`, `epoll`, `parking` and
//! `event_loop` call these modules.
//!
//! This is the Linux version. A version for another system would provide the same functions: an fd
//! set with tokens (kqueue), a bell that wakes it (`EVFILT_USER`), an absolute timer in it
//! (`EVFILT_TIMER`), a word to sleep on (`os_sync_wait_on_address`) and a clock.

pub mod epoll;
#[cfg(not(loom))]
mod eventfd;
#[cfg(not(loom))]
mod futex;
#[cfg(loom)]
mod model;
pub mod time;
pub mod timerfd;

#[cfg(not(loom))]
pub use eventfd::Bell;
#[cfg(not(loom))]
pub use futex::Futex;
#[cfg(loom)]
pub use model::{Bell, Futex};

/// The result of a timed wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Woken, interrupted, or the word had changed: check again.
    Returned,
    /// The deadline passed.
    TimedOut,
}
