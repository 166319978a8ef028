//! The bell: an eventfd in the epoll set, rung by `parking` to end the owner's epoll wait.
//!
//! It is registered edge-triggered: every write makes the set ready once, whatever the counter's
//! value, so it is never read.

use super::check;
use crate::error::Result;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the kernel just returned this number; it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // If another thread was first, ours is closed again.
        Ok(self.fd.get_or_init(|| fd).as_raw_fd())
    }

    /// Makes the epoll set ready, once. From any thread.
    pub fn ring(&self) {
        let Some(fd) = self.fd.get() else {
            return; // in no set, so no thread waits for it
        };
        let one: u64 = 1;
        // SAFETY: reads the eight bytes of `one`, which outlives the call.
        let written = unsafe {
            libc::write(
                fd.as_raw_fd(),
                (&raw const one).cast(),
                std::mem::size_of::<u64>(),
            )
        };
        // It could only fail after 2^64 rings, or if our descriptor were closed.
        debug_assert_eq!(written, 8, "an eventfd of ours takes eight bytes");
    }
}
