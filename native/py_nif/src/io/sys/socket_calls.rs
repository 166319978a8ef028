//! Non-blocking system calls on sockets, by fd number.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, Shutdown, sockopt};

use super::address::Address;

/// What a call on a non-blocking fd can return besides its result.
pub enum Stop {
    /// There is nothing at the moment.
    WouldBlock,
    Failed(i32),
}

pub fn answer(result: isize) -> Result<usize, Stop> {
    match usize::try_from(result) {
        Ok(count) => Ok(count),
        Err(_) => {
            let code = last_error();
            match code {
                libc::EAGAIN | libc::EINTR => Err(Stop::WouldBlock),
                _ => Err(Stop::Failed(code)),
            }
        }
    }
}

fn done<T>(result: rustix::io::Result<T>) -> Result<T, Stop> {
    result.map_err(|error| match error {
        Errno::AGAIN | Errno::INTR => Stop::WouldBlock,
        error => Stop::Failed(error.raw_os_error()),
    })
}

/// The fd for the time of a call; an error for -1, which a closed transport has.
fn open(fd: &RawFd) -> rustix::io::Result<BorrowedFd<'_>> {
    match *fd {
        // SAFETY: not -1, and the number is only passed to the kernel, which refuses one that is
        // not open.
        0.. => Ok(unsafe { BorrowedFd::borrow_raw(*fd) }),
        _ => Err(Errno::BADF),
    }
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The system call itself, through rustix: glibc's function has two atomic operations more, for
/// threads that may be cancelled, which ours are not.
pub fn recv(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Stop> {
    let received = open(&fd).and_then(|fd| net::recv(fd, buffer, RecvFlags::empty()));
    done(received).map(|(count, _)| count)
}

/// As `recv`, for a socket of the program, which may be blocking.
pub fn recv_nowait(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Stop> {
    let received = open(&fd).and_then(|fd| net::recv(fd, buffer, RecvFlags::DONTWAIT));
    done(received).map(|(count, _)| count)
}

/// Receives into memory of a Python object. Returns what was received.
pub fn recv_into(fd: RawFd, memory: &mut [MaybeUninit<u8>]) -> Result<&mut [u8], Stop> {
    let received = open(&fd).and_then(|fd| net::recv(fd, memory, RecvFlags::empty()));
    done(received).map(|((received, _), _)| received)
}

/// NOSIGNAL: a closed peer is an error, not a signal to the VM.
pub fn send(fd: RawFd, data: &[u8]) -> Result<usize, Stop> {
    done(open(&fd).and_then(|fd| net::send(fd, data, SendFlags::NOSIGNAL)))
}

/// Sends the pieces in one call.
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
    let done = open(&fd).and_then(|fd| net::shutdown(fd, Shutdown::Write));
    done.map_err(Errno::raw_os_error)
}

/// Makes the socket send small pieces at once, as asyncio does; a socket that is not TCP rejects
/// this, which is fine.
pub fn set_nodelay(fd: RawFd) {
    let _ = open(&fd).and_then(|fd| sockopt::set_tcp_nodelay(fd, true));
}

/// Receives a datagram and its sender's address.
pub fn recv_from(fd: RawFd, buffer: &mut [u8], from: &mut Address) -> Result<usize, Stop> {
    let memory = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer and the address are exclusively ours and have the given lengths.
    answer(unsafe {
        let address = from.as_mut_ptr();
        libc::recvfrom(fd, memory, buffer.len(), 0, address, from.length_mut())
    })
}

/// The maximum number of datagrams per call.
pub const DATAGRAMS: usize = 4;

/// Receives datagrams, each into its part of the buffer. Returns how many; `into` gets their
/// lengths and senders.
pub fn recv_several(
    fd: RawFd,
    buffer: &mut [u8],
    into: &mut [(usize, Address); DATAGRAMS],
) -> Result<usize, Stop> {
    let part = buffer.len() / DATAGRAMS;
    // SAFETY: all zeroes is a valid header (and iovec) that points to nothing.
    let mut pieces: [libc::iovec; DATAGRAMS] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; DATAGRAMS] = unsafe { std::mem::zeroed() };
    for (index, memory) in buffer.chunks_exact_mut(part).take(DATAGRAMS).enumerate() {
        pieces[index].iov_base = memory.as_mut_ptr().cast();
        pieces[index].iov_len = part;
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = &raw mut pieces[index];
        header.msg_iovlen = 1;
        header.msg_name = into[index].1.as_mut_ptr().cast();
        header.msg_namelen = into[index].1.length();
    }
    // SAFETY: the headers point to parts of the buffer and to addresses, all exclusively ours and
    // of the given lengths, during the call.
    let count = answer(unsafe {
        let most = DATAGRAMS as libc::c_uint;
        libc::recvmmsg(fd, headers.as_mut_ptr(), most, 0, std::ptr::null_mut()) as isize
    })?;
    for (header, (length, from)) in headers.iter().zip(into.iter_mut()).take(count) {
        *length = header.msg_len as usize;
        *from.length_mut() = header.msg_hdr.msg_namelen;
    }
    Ok(count)
}

pub fn send_to(fd: RawFd, data: &[u8], to: &Address) -> Result<usize, Stop> {
    let flags = libc::MSG_NOSIGNAL;
    // SAFETY: only reads the data, and an address of its true length.
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

/// The address that a socket is bound to; without a family if it is unknown.
pub fn own_address(fd: RawFd) -> Address {
    let mut found = Address::empty();
    // SAFETY: the address is exclusively ours and has the given length. What the call does not fill
    // in stays zero, which means no family.
    unsafe { libc::getsockname(fd, found.as_mut_ptr(), found.length_mut()) };
    found
}

/// As [`own_address`], for the other end.
pub fn peer_address(fd: RawFd) -> Address {
    let mut found = Address::empty();
    // SAFETY: as in `own_address`.
    unsafe { libc::getpeername(fd, found.as_mut_ptr(), found.length_mut()) };
    found
}

/// Opens a TCP socket: non-blocking and close-on-exec.
pub fn open_stream(family: libc::c_int) -> Result<OwnedFd, i32> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory involved; a new fd has no other owner.
    unsafe {
        match libc::socket(family, kind, libc::IPPROTO_TCP) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(last_error()),
        }
    }
}

/// The error number, or 0.
pub fn connect(fd: RawFd, to: &Address) -> i32 {
    // SAFETY: an address of its true length.
    match unsafe { libc::connect(fd, to.as_ptr(), to.length()) } {
        0 => 0,
        _ => last_error(),
    }
}

/// Accepts a connection: non-blocking and close-on-exec.
pub fn accept(fd: RawFd, from: &mut Address) -> Result<OwnedFd, Stop> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the address is exclusively ours and has the given length; a new fd has no other
    // owner.
    unsafe {
        let accepted = libc::accept4(fd, from.as_mut_ptr(), from.length_mut(), flags);
        answer(accepted as isize).map(|fd| OwnedFd::from_raw_fd(fd as RawFd))
    }
}
