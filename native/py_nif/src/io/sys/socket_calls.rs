//! Non-blocking system calls on sockets, by fd number.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrStorage;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny,
    SocketFlags, SocketType, ipproto, sockopt,
};

use super::address::Address;

/// What a call on a non-blocking fd can return besides its result.
pub enum Stop {
    /// There is nothing at the moment.
    WouldBlock,
    Failed(i32),
}

/// The result of a system call, as the callers of this module want it.
pub fn outcome<T>(result: rustix::io::Result<T>) -> Result<T, Stop> {
    result.map_err(|error| match error {
        Errno::AGAIN | Errno::INTR => Stop::WouldBlock,
        error => Stop::Failed(error.raw_os_error()),
    })
}

/// The fd for the time of a call; an error for -1, which a closed transport has.
pub fn open(fd: &RawFd) -> rustix::io::Result<BorrowedFd<'_>> {
    match *fd {
        // SAFETY: not -1, and the number is only passed to the kernel, which refuses one that is
        // not open.
        0.. => Ok(unsafe { BorrowedFd::borrow_raw(*fd) }),
        _ => Err(Errno::BADF),
    }
}

/// The system call itself, through rustix: glibc's function has two atomic operations more, for
/// threads that may be cancelled, which ours are not.
pub fn recv(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Stop> {
    let received = open(&fd).and_then(|fd| net::recv(fd, buffer, RecvFlags::empty()));
    outcome(received).map(|(count, _)| count)
}

/// As `recv`, for a socket of the program, which may be blocking.
pub fn recv_nowait(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Stop> {
    let received = open(&fd).and_then(|fd| net::recv(fd, buffer, RecvFlags::DONTWAIT));
    outcome(received).map(|(count, _)| count)
}

/// Receives into memory of a Python object. Returns what was received.
pub fn recv_into(fd: RawFd, memory: &mut [MaybeUninit<u8>]) -> Result<&mut [u8], Stop> {
    let received = open(&fd).and_then(|fd| net::recv(fd, memory, RecvFlags::empty()));
    outcome(received).map(|((received, _), _)| received)
}

/// NOSIGNAL: a closed peer is an error, not a signal to the VM.
pub fn send(fd: RawFd, data: &[u8]) -> Result<usize, Stop> {
    outcome(open(&fd).and_then(|fd| net::send(fd, data, SendFlags::NOSIGNAL)))
}

/// Sends the pieces in one call.
pub fn send_pieces(fd: RawFd, pieces: &[io::IoSlice<'_>]) -> Result<usize, Stop> {
    let mut control = SendAncillaryBuffer::default();
    let sent = |fd| net::sendmsg(fd, pieces, &mut control, SendFlags::NOSIGNAL);
    outcome(open(&fd).and_then(sent))
}

pub fn shutdown_write(fd: RawFd) -> Result<(), i32> {
    let result = open(&fd).and_then(|fd| net::shutdown(fd, Shutdown::Write));
    result.map_err(Errno::raw_os_error)
}

/// Makes the socket send small pieces at once, as asyncio does; a socket that is not TCP rejects
/// this, which is fine.
pub fn set_nodelay(fd: RawFd) {
    let _ = open(&fd).and_then(|fd| sockopt::set_tcp_nodelay(fd, true));
}

/// Receives a datagram. Returns its length and its sender's address.
pub fn recv_from(fd: RawFd, buffer: &mut [u8]) -> Result<(usize, Address), Stop> {
    let received = open(&fd).and_then(|fd| net::recvfrom(fd, buffer, RecvFlags::empty()));
    outcome(received).map(|(count, _, from)| (count, Address::from(from)))
}

/// The maximum number of datagrams per call.
pub const DATAGRAMS: usize = 4;

/// Receives datagrams, each into its part of the buffer, and passes each of them with its sender's
/// address to `received`. rustix has no recvmmsg.
pub fn recv_several(
    fd: RawFd,
    buffer: &mut [u8],
    mut received: impl FnMut(&[u8], Address),
) -> Result<(), Stop> {
    let part = buffer.len() / DATAGRAMS;
    let mut senders = [SocketAddrStorage::zeroed(); DATAGRAMS];
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
        header.msg_name = (&raw mut senders[index]).cast();
        header.msg_namelen = size_of::<SocketAddrStorage>() as libc::socklen_t;
    }
    let most = DATAGRAMS as libc::c_uint;
    // SAFETY: the headers point to parts of the buffer and to addresses, all exclusively ours and
    // of the given lengths, during the call.
    let count = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), most, 0, std::ptr::null_mut()) };
    let count = usize::try_from(count).map_err(|_| {
        let error = io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    });
    let count = outcome(count)?;
    for (index, memory) in buffer.chunks_exact(part).take(count).enumerate() {
        let from = sender(senders[index], headers[index].msg_hdr.msg_namelen);
        received(&memory[..headers[index].msg_len as usize], from);
    }
    Ok(())
}

/// The address that the kernel has written; one that is shorter than its family is none.
fn sender(storage: SocketAddrStorage, length: libc::socklen_t) -> Address {
    let known = size_of::<libc::sa_family_t>()..=size_of::<SocketAddrStorage>();
    // SAFETY: the storage is initialized, and the kernel has written `length` bytes of an address.
    let from = known
        .contains(&(length as usize))
        .then(|| unsafe { SocketAddrAny::new(MaybeUninit::new(storage), length) });
    Address::from(from)
}

pub fn send_to(fd: RawFd, data: &[u8], to: &SocketAddr) -> Result<usize, Stop> {
    outcome(open(&fd).and_then(|fd| net::sendto(fd, data, SendFlags::NOSIGNAL, to)))
}

/// The address that a socket is bound to.
pub fn own_address(fd: RawFd) -> Address {
    Address::from(open(&fd).and_then(net::getsockname).ok())
}

/// As [`own_address`], for the other end.
pub fn peer_address(fd: RawFd) -> Address {
    Address::from(open(&fd).and_then(net::getpeername).ok().flatten())
}

/// Opens a TCP socket for connections to `address`: non-blocking and close-on-exec.
pub fn open_stream(address: &SocketAddr) -> Result<OwnedFd, i32> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let opened = net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP));
    opened.map_err(Errno::raw_os_error)
}

/// The error number, or 0.
pub fn connect(fd: RawFd, to: &SocketAddr) -> i32 {
    let connected = open(&fd).and_then(|fd| net::connect(fd, to));
    connected.map_or_else(Errno::raw_os_error, |()| 0)
}

/// Accepts a connection: non-blocking and close-on-exec. Returns it with its peer's address.
pub fn accept(fd: RawFd) -> Result<(OwnedFd, Address), Stop> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let accepted = open(&fd).and_then(|fd| net::acceptfrom_with(fd, flags));
    outcome(accepted).map(|(fd, from)| (fd, Address::from(from)))
}
