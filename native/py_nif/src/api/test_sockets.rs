//! Pipes and sockets for trying loops, from a shell or a suite.
//!
//! The functions take fd numbers, and a wrong number could be an fd of the VM itself. So only fds
//! created here are accepted; anything else is `{error, ebadf}`.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{LazyLock, Mutex, MutexGuard};

use rustler::{Binary, Decoder, Encoder, Env, NewBinary, NifResult, Term};

use crate::error::{Error, Result, done_or_error, ok_or_error};

/// Receiving more than this at once is rejected: the caller chooses the size.
const MAX_READ: usize = 64 << 20;

fn table() -> MutexGuard<'static, HashMap<RawFd, OwnedFd>> {
    static TABLE: LazyLock<Mutex<HashMap<RawFd, OwnedFd>>> = LazyLock::new(Mutex::default);
    TABLE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn keep(fd: impl Into<OwnedFd>) -> Result<RawFd> {
    let fd = fd.into();
    rustix::io::ioctl_fionbio(&fd, true)
        .map_err(|error| event_loop::Error::from_errno(error.raw_os_error()))?;
    let number = fd.as_raw_fd();
    table().insert(number, fd);
    Ok(number)
}

/// Releases the fd, if it was created here; dropping the result closes it.
pub fn take(number: RawFd) -> Option<OwnedFd> {
    table().remove(&number)
}

/// A duplicate to work with, so that the table is not locked during the operation.
fn borrow<T: From<OwnedFd>>(number: RawFd) -> Result<T> {
    let table = table();
    let fd = table
        .get(&number)
        .ok_or(Error::Core(event_loop::Error::BadFd))?;
    Ok(T::from(fd.try_clone().map_err(os)?))
}

fn os(error: io::Error) -> Error {
    let code = error.raw_os_error().unwrap_or(libc::EINVAL);
    Error::Core(event_loop::Error::from_errno(code))
}

/// A port from Erlang. rustler decodes an integer as `u16` by dropping the bits above.
struct Port(u16);

impl<'a> Decoder<'a> for Port {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        let port = u16::try_from(term.decode::<u32>()?);
        port.map(Port).map_err(|_| rustler::Error::BadArg)
    }
}

fn buffer(max: usize) -> NifResult<Vec<u8>> {
    match max <= MAX_READ {
        true => Ok(vec![0; max]),
        false => Err(rustler::Error::BadArg),
    }
}

fn binary<'a>(env: Env<'a>, bytes: &[u8]) -> Term<'a> {
    Binary::from(NewBinary::from_slice(env, bytes)).encode(env)
}

#[rustler::nif]
fn create_test_pipe(env: Env<'_>) -> Term<'_> {
    let made = io::pipe().map_err(os).and_then(|(reader, writer)| {
        Ok((keep(OwnedFd::from(reader))?, keep(OwnedFd::from(writer))?))
    });
    ok_or_error(env, made)
}

#[rustler::nif]
fn write_test_fd<'a>(env: Env<'a>, fd: RawFd, data: Binary<'a>) -> Term<'a> {
    let written = borrow::<std::fs::File>(fd)
        .and_then(|mut file| file.write_all(data.as_slice()).map_err(os));
    done_or_error(env, written)
}

#[rustler::nif]
fn read_test_fd<'a>(env: Env<'a>, fd: RawFd, max: usize) -> NifResult<Term<'a>> {
    let mut data = buffer(max)?;
    let read = borrow::<std::fs::File>(fd)
        .and_then(|mut file| file.read(&mut data).map_err(os))
        .map(|size| binary(env, &data[..size]));
    Ok(ok_or_error(env, read))
}

#[rustler::nif]
fn close_test_fd<'a>(env: Env<'a>, fd: RawFd) -> Term<'a> {
    let closed = take(fd)
        .map(drop)
        .ok_or(Error::Core(event_loop::Error::BadFd));
    done_or_error(env, closed)
}

#[rustler::nif]
fn create_test_tcp_listener<'a>(env: Env<'a>, port: Port) -> Term<'a> {
    let made = TcpListener::bind(("127.0.0.1", port.0))
        .map_err(os)
        .and_then(|listener| {
            let port = listener.local_addr().map_err(os)?.port();
            Ok((keep(listener)?, port))
        });
    ok_or_error(env, made)
}

/// Waits for the connection, so it runs on a dirty scheduler.
#[rustler::nif(schedule = "DirtyIo")]
fn connect_test_tcp<'a>(env: Env<'a>, host: &'a str, port: Port) -> Term<'a> {
    let made = TcpStream::connect((host, port.0))
        .map_err(os)
        .and_then(keep);
    ok_or_error(env, made)
}

#[rustler::nif]
fn accept_test_tcp<'a>(env: Env<'a>, fd: RawFd) -> Term<'a> {
    let made = borrow::<TcpListener>(fd)
        .and_then(|listener| listener.accept().map_err(os))
        .and_then(|(stream, _)| keep(stream));
    ok_or_error(env, made)
}

#[rustler::nif]
fn create_test_udp_socket<'a>(env: Env<'a>, port: Port) -> Term<'a> {
    let made = UdpSocket::bind(("0.0.0.0", port.0))
        .map_err(os)
        .and_then(|socket| {
            let port = socket.local_addr().map_err(os)?.port();
            Ok((keep(socket)?, port))
        });
    ok_or_error(env, made)
}

/// `host` is a literal address or a name in the hosts file; looking up a name may block, so it runs
/// on a dirty scheduler.
#[rustler::nif(schedule = "DirtyIo")]
fn sendto_test_udp<'a>(
    env: Env<'a>,
    fd: RawFd,
    data: Binary<'a>,
    host: &'a str,
    port: Port,
) -> Term<'a> {
    let sent = borrow::<UdpSocket>(fd).and_then(|socket| {
        let mut found = (host, port.0).to_socket_addrs().map_err(os)?;
        let address = found.find(|address| address.is_ipv4()).ok_or(Error::Core(
            event_loop::Error::from_errno(libc::EAFNOSUPPORT),
        ))?;
        socket.send_to(data.as_slice(), address).map_err(os)?;
        Ok(())
    });
    done_or_error(env, sent)
}

#[rustler::nif]
fn recvfrom_test_udp<'a>(env: Env<'a>, fd: RawFd, max: usize) -> NifResult<Term<'a>> {
    let mut data = buffer(max)?;
    let received = borrow::<UdpSocket>(fd)
        .and_then(|socket| socket.recv_from(&mut data).map_err(os))
        .map(|(size, from)| {
            let host = binary(env, from.ip().to_string().as_bytes());
            (binary(env, &data[..size]), (host, from.port()))
        });
    Ok(ok_or_error(env, received))
}

/// `on`: a boolean, or 1 and 0 as in `setsockopt`.
#[rustler::nif]
fn set_udp_broadcast<'a>(env: Env<'a>, fd: RawFd, on: Term<'a>) -> NifResult<Term<'a>> {
    let on = match on.decode::<u32>() {
        Ok(number @ (0 | 1)) => number == 1,
        _ => on.decode::<bool>()?,
    };
    let set = borrow::<UdpSocket>(fd).and_then(|socket| socket.set_broadcast(on).map_err(os));
    Ok(done_or_error(env, set))
}
