//! The errors of the core. The native library translates each once to `{error, Reason}` and once to
//! a Python exception.

use std::fmt;
use std::io;

/// Why an operation of the core failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Error {
    /// The loop was closed.
    Closed,
    /// The number is not an open file descriptor.
    BadFd,
    /// The descriptor is open but cannot be polled: a regular file or a directory.
    NotPollable,
    /// The watch of this id no longer exists: removed, replaced, or its descriptor was closed.
    Stale,
    /// The loop is running: it cannot be started again or closed now.
    Running,
    /// The loop is not running: there is nothing to stop.
    NotRunning,
    /// Any other error of the kernel, as `errno`.
    Os(i32),
}

/// The result of the core's operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Maps the `errno` values that have a meaning here. epoll rejects files that are always ready
    /// with `EPERM`; none of our other calls returns it.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            libc::EBADF => Self::BadFd,
            libc::EPERM => Self::NotPollable,
            other => Self::Os(other),
        }
    }

    /// The `errno` closest to this error, for callers that raise an `OSError`.
    #[must_use]
    pub fn errno(self) -> Option<i32> {
        match self {
            Self::BadFd => Some(libc::EBADF),
            Self::NotPollable => Some(libc::EPERM),
            Self::Os(errno) => Some(errno),
            Self::Closed | Self::Stale | Self::Running | Self::NotRunning => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the loop is closed"),
            Self::BadFd => f.write_str("bad file descriptor"),
            Self::NotPollable => f.write_str("file descriptor cannot be waited for"),
            Self::Stale => f.write_str("the watch is gone"),
            Self::Running => f.write_str("the loop is running"),
            Self::NotRunning => f.write_str("the loop is not running"),
            Self::Os(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Self::from_errno(error.raw_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_converts_both_ways() {
        for errno in [libc::EBADF, libc::EPERM, libc::ENOMEM, libc::EEXIST] {
            assert_eq!(Error::from_errno(errno).errno(), Some(errno));
        }
    }

    #[test]
    fn os_errors_read_as_the_system_words_them() {
        assert!(Error::Os(libc::ENOMEM).to_string().contains("memory"));
    }
}
