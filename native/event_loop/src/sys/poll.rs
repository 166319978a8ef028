//! A question about one descriptor, without an epoll set. `watches` asks it.

use std::os::fd::RawFd;

/// Whether `fd` can be written to this moment, and there is nothing else to say about it: a
/// closed number or a connection that broke is not writable here.
pub(crate) fn is_writable(fd: RawFd) -> bool {
    let mut asked = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one valid entry for the time of the call, which does not wait. A wrong `fd` is
    // answered with an error, it is never dereferenced.
    let count = unsafe { libc::poll(&raw mut asked, 1, 0) };
    count == 1 && asked.revents == libc::POLLOUT
}
