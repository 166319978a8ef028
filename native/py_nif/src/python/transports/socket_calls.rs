//! System calls on sockets, by fd number, without waiting.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;

use super::address::Address;

/// What a call on a non-blocking fd can answer besides its result.
pub enum Stop {
    /// Nothing to be had now.
    WouldBlock,
    Failed(i32),
}

pub fn answer(result: isize) -> Result<usize, Stop> {
    match usize::try_from(result) {
        Ok(count) => Ok(count),
        Err(_) => {
            let code = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            match code {
                libc::EAGAIN | libc::EINTR => Err(Stop::WouldBlock),
                _ => Err(Stop::Failed(code)),
            }
        }
    }
}

pub fn recv(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Stop> {
    // SAFETY: the buffer is exclusively ours and as long as we say.
    answer(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) })
}

/// Receives into memory that belongs to a Python object.
///
/// # Safety
/// `memory` must be writable for `length` bytes during the call (an exported buffer).
pub unsafe fn recv_into(fd: RawFd, memory: *mut u8, length: usize) -> Result<usize, Stop> {
    // SAFETY: by the contract above.
    answer(unsafe { libc::recv(fd, memory.cast(), length, 0) })
}

pub fn send(fd: RawFd, data: &[u8]) -> Result<usize, Stop> {
    // SAFETY: plain memory; MSG_NOSIGNAL: a closed peer is an error, not a signal to the VM.
    answer(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) })
}

/// Sends the pieces as one.
pub fn send_pieces(fd: RawFd, pieces: &[io::IoSlice<'_>]) -> Result<usize, Stop> {
    // SAFETY: `IoSlice` is guaranteed to be an `iovec`; the header lives during the call.
    answer(unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = pieces.as_ptr() as *mut libc::iovec;
        header.msg_iovlen = pieces.len() as _;
        libc::sendmsg(fd, &header, libc::MSG_NOSIGNAL)
    })
}

pub fn shutdown_write(fd: RawFd) -> Result<(), i32> {
    // SAFETY: no memory involved.
    match unsafe { libc::shutdown(fd, libc::SHUT_WR) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

/// Sends small pieces at once, as asyncio does; a socket that is not TCP refuses, which is fine.
pub fn set_nodelay(fd: RawFd) {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int, as said.
    unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}

/// Receives a datagram and who sent it.
pub fn recv_from(fd: RawFd, buffer: &mut [u8], from: &mut Address) -> Result<usize, Stop> {
    let memory = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer and the address are exclusively ours and as long as we say.
    answer(unsafe {
        let address = from.as_mut_ptr();
        libc::recvfrom(fd, memory, buffer.len(), 0, address, from.length_mut())
    })
}

pub fn send_to(fd: RawFd, data: &[u8], to: &Address) -> Result<usize, Stop> {
    let flags = libc::MSG_NOSIGNAL;
    // SAFETY: plain memory, and an address with its true length.
    answer(unsafe {
        libc::sendto(
            fd,
            data.as_ptr().cast(),
            data.len(),
            flags,
            to.as_ptr(),
            to.length(),
        )
    })
}

/// Accepts a connection: non-blocking, and closed when the node starts another program.
pub fn accept(fd: RawFd, from: &mut Address) -> Result<RawFd, Stop> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the address is exclusively ours and as long as we say.
    let accepted = unsafe { libc::accept4(fd, from.as_mut_ptr(), from.length_mut(), flags) };
    answer(accepted as isize).map(|fd| fd as RawFd)
}
