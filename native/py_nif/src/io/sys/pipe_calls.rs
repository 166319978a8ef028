//! Non-blocking system calls on pipes and character devices, by fd number.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use super::socket_calls::{Stop, answer};

/// The file types that a pipe transport accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    Pipe,
    Socket,
    CharacterDevice,
    Other,
}

pub fn file_type(fd: RawFd) -> Result<FileType, i32> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills `status` if it returns 0, and it is read only then.
    let mode = unsafe {
        match libc::fstat(fd, status.as_mut_ptr()) {
            0 => status.assume_init().st_mode,
            _ => return Err(last_error()),
        }
    };
    Ok(match mode & libc::S_IFMT {
        libc::S_IFIFO => FileType::Pipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharacterDevice,
        _ => FileType::Other,
    })
}

pub fn set_nonblocking(fd: RawFd) -> Result<(), i32> {
    // SAFETY: no memory involved.
    let set = unsafe {
        match libc::fcntl(fd, libc::F_GETFL) {
            -1 => -1,
            flags => libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK),
        }
    };
    match set {
        -1 => Err(last_error()),
        _ => Ok(()),
    }
}

pub fn read(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Stop> {
    // SAFETY: the buffer is exclusively ours and has the given length.
    answer(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// A closed peer is an error here, not a signal: the VM ignores SIGPIPE, and so does Python.
pub fn write(fd: RawFd, data: &[u8]) -> Result<usize, Stop> {
    // SAFETY: only reads the data.
    answer(unsafe { libc::write(fd, data.as_ptr().cast(), data.len()) })
}

/// Writes the pieces in one call.
pub fn write_pieces(fd: RawFd, pieces: &[io::IoSlice<'_>]) -> Result<usize, Stop> {
    // SAFETY: `IoSlice` is guaranteed to be an `iovec`.
    answer(unsafe { libc::writev(fd, pieces.as_ptr().cast(), pieces.len() as libc::c_int) })
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
