//! The few things done to an fd by its number.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Closes `fd`. An fd that is not open is left alone by the kernel (EBADF); every other error of
/// `close` means that it is closed.
pub fn close(fd: RawFd) {
    // SAFETY: no Rust value owns `fd`: the caller of `close_fd/1` does, and gives it up.
    unsafe { libc::close(fd) };
}

/// Makes reads and writes on `fd` answer EAGAIN instead of waiting.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let fd = fd.as_raw_fd();
    // SAFETY: `fd` is borrowed, so it is open; these calls only read and set its flags.
    let changed = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    match changed {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}
