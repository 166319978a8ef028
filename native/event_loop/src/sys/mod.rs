//! The system calls, wrapped so that the rest of the crate is safe code. Only `clock`, `epoll`,
//! `parking`, `watches` and `event_loop` call them.
//!
//! This is the Linux version. A version for another system would provide the same functions: an fd
//! set with tokens (kqueue), a bell that wakes it (`EVFILT_USER`), an absolute timer in it
//! (`EVFILT_TIMER`), a word to sleep on (`os_sync_wait_on_address`) and a clock.
#![allow(unsafe_code)] // the border to the kernel; every block says why it holds

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

use crate::error::{Error, Result};

/// The result of a timed wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Woken, interrupted, or the word had changed: check again.
    Returned,
    /// The deadline passed.
    TimedOut,
}

/// The `errno` of the call that just failed on this thread.
fn last_error() -> Error {
    Error::from(std::io::Error::last_os_error())
}

/// Most calls return a negative number to say that `errno` is set.
fn check(answer: libc::c_int) -> Result<libc::c_int> {
    if answer < 0 {
        Err(last_error())
    } else {
        Ok(answer)
    }
}
