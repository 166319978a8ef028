//! A deadline that makes the epoll set ready, for a parked loop. `event_loop` calls it.
//!
//! Registered edge-triggered like the bell: setting it again clears an old expiry, so it is never
//! read, either.

use crate::error::Result;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

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
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { fd })
    }

    /// Fires at `when_ns` of the monotonic clock (at once if that has passed), or never.
    ///
    /// # Errors
    /// None is known for our timers; errors of the kernel are passed on.
    pub fn set(&self, when_ns: Option<u64>) -> Result<()> {
        // The kernel reads a zero as "unset"; the first nanosecond has long passed as well.
        let when = Itimerspec {
            it_interval: Timespec::default(), // once
            it_value: super::time::timespec(when_ns.map_or(0, |when| when.max(1))),
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &when)?;
        Ok(())
    }

    /// The number to put into the epoll set.
    #[must_use]
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
