//! A deadline that makes the epoll set ready, for a parked loop. `event_loop` calls it.
//!
//! Registered edge-triggered like the bell: setting it again clears an old expiry, so it is never
//! read, either.

use super::check;
use crate::error::Result;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// One absolute timer on the monotonic clock.
#[derive(Debug)]
pub struct TimerFd {
    fd: OwnedFd,
}

impl TimerFd {
    /// An unset timer, non-blocking and close-on-exec.
    ///
    /// # Errors
    /// [`Os`](crate::Error::Os) when descriptors or memory have run out.
    pub fn new() -> Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: the kernel just returned this number; it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Fires at `when_ns` of the monotonic clock (at once if that has passed), or never.
    ///
    /// # Errors
    /// None is known for our timers; errors of the kernel are passed on.
    pub fn set(&self, when_ns: Option<u64>) -> Result<()> {
        // The kernel reads a zero as "unset"; the first nanosecond has long passed as well.
        let when = super::time::timespec(when_ns.map_or(0, |when| when.max(1)));
        let once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let spec = libc::itimerspec {
            it_interval: once,
            it_value: when,
        };
        // SAFETY: `spec` is only read and outlives the call; the old value is not requested.
        check(unsafe {
            libc::timerfd_settime(
                self.fd.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const spec,
                std::ptr::null_mut(),
            )
        })
        .map(|_| ())
    }

    /// The number to put into the epoll set.
    #[must_use]
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
