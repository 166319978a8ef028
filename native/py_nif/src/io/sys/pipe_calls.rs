//! Non-blocking system calls on pipes and character devices, by fd number.

use std::io;
use std::os::fd::RawFd;

use rustix::fs::{self, FileType};
use rustix::io::Errno;

use super::socket_calls::{Stop, open, outcome};

pub fn file_type(fd: RawFd) -> Result<FileType, i32> {
    let status = open(&fd).and_then(fs::fstat);
    status
        .map(|status| FileType::from_raw_mode(status.st_mode))
        .map_err(Errno::raw_os_error)
}

pub fn set_nonblocking(fd: RawFd) -> Result<(), i32> {
    let set = open(&fd).and_then(|fd| rustix::io::ioctl_fionbio(fd, true));
    set.map_err(Errno::raw_os_error)
}

pub fn read(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Stop> {
    outcome(open(&fd).and_then(|fd| rustix::io::read(fd, buffer)))
}

/// A closed peer is an error here, not a signal: the VM ignores SIGPIPE, and so does Python.
pub fn write(fd: RawFd, data: &[u8]) -> Result<usize, Stop> {
    outcome(open(&fd).and_then(|fd| rustix::io::write(fd, data)))
}

/// Writes the pieces in one call.
pub fn write_pieces(fd: RawFd, pieces: &[io::IoSlice<'_>]) -> Result<usize, Stop> {
    outcome(open(&fd).and_then(|fd| rustix::io::writev(fd, pieces)))
}
