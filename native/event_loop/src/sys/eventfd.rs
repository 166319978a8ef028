//! The bell: an eventfd in the epoll set, rung by `parking` to end the owner's epoll wait.
//!
//! It is registered edge-triggered: every write makes the set ready once, whatever the counter's
//! value, so it is never read.

use crate::error::Result;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// A descriptor that becomes ready when rung. It is created on first use: a loop that never waits
/// on an epoll set needs none.
#[derive(Debug, Default)]
pub struct Bell {
    fd: OnceLock<OwnedFd>,
}

impl Bell {
    /// A bell that has not been rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number to put into the epoll set; non-blocking and close-on-exec.
    ///
    /// # Errors
    /// [`Os`](crate::Error::Os) when descriptors or memory have run out.
    pub fn fd(&self) -> Result<RawFd> {
        if let Some(fd) = self.fd.get() {
            return Ok(fd.as_raw_fd());
        }
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        // If another thread was first, ours is closed again.
        Ok(self.fd.get_or_init(|| fd).as_raw_fd())
    }

    /// Makes the epoll set ready, once. From any thread.
    pub fn ring(&self) {
        let Some(fd) = self.fd.get() else {
            return; // in no set, so no thread waits for it
        };
        let written = rustix::io::write(fd, &1_u64.to_ne_bytes());
        // It could only fail after 2^64 rings, or if our descriptor were closed.
        debug_assert_eq!(written, Ok(8), "an eventfd of ours takes eight bytes");
    }
}
