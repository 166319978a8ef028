//! Operations on a file descriptor by its number.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Closes `fd`. If `fd` is not open, the kernel returns EBADF and does nothing; after every other
/// error of `close`, `fd` is closed.
pub fn close(fd: RawFd) {
    // SAFETY: no Rust value owns `fd`: the caller of `close_fd/1` does, and passes it on.
    unsafe { libc::close(fd) };
}

/// Identifies the file behind an fd number. Numbers are reused, and comparing two of these shows
/// it. (All eventfds and similar files share one identity: between those it cannot distinguish.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

/// `None` for a number that is not open.
pub fn file_id(fd: RawFd) -> Option<FileId> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `fstat` accepts any number, and has filled `stat` when it returns 0.
    unsafe {
        (libc::fstat(fd, stat.as_mut_ptr()) == 0).then(|| {
            let stat = stat.assume_init();
            FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
            }
        })
    }
}

/// Makes reads and writes on `fd` fail with EAGAIN instead of blocking.
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
