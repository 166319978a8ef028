//! The bell: an eventfd in the epoll set, rung by `parking` to end the owner's epoll wait.
//!
//! It is registered edge-triggered: every write makes the set ready once, however high the
//! counter already stands, so nobody ever has to read it.

use super::check;
use crate::error::Result;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that becomes ready when rung.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
}

impl Bell {
    /// A silent bell, non-blocking and close-on-exec.
    ///
    /// # Errors
    /// [`Os`](crate::Error::Os) when descriptors or memory have run out.
    pub fn new() -> Result<Self> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the kernel just gave us this number; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Makes the epoll set ready, once. Any thread.
    pub fn ring(&self) {
        let one: u64 = 1;
        // SAFETY: reads the eight bytes of `one`, which outlives the call.
        let written = unsafe {
            libc::write(
                self.fd.as_raw_fd(),
                (&raw const one).cast(),
                std::mem::size_of::<u64>(),
            )
        };
        // It could only refuse after 2^64 rings, or if the descriptor we own were closed.
        debug_assert_eq!(written, 8, "an eventfd of ours takes eight bytes");
    }

    /// The number to put into the epoll set.
    #[must_use]
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
