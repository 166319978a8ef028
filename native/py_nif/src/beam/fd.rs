//! Operations on a file descriptor by its number.
#![allow(unsafe_code)]

use std::os::fd::{BorrowedFd, RawFd};

use rustix::fs::fstat;

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
    if fd < 0 {
        return None;
    }
    // SAFETY: not -1, and the kernel refuses a number that is not open.
    let stat = fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
    Some(FileId {
        device: stat.st_dev,
        inode: stat.st_ino,
    })
}
