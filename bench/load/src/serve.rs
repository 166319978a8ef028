//! The bare echo server: one thread, one epoll set, a recv and a send for each request. What a
//! loop cannot beat, only approach. Ends when its stdin does.

use crate::Failure;
use crate::options::Options;
use crate::socket::Address;
use crate::sys::{self, Epoll, Event};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

const STDIN: RawFd = 0;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

enum Listener {
    Tcp(TcpListener),
    Udp(UdpSocket),
    Unix(UnixListener),
}

/// The mode serve. Prints its port, or 0 for a Unix socket.
pub fn run(options: &Options) -> Result<(), Failure> {
    let failed = |error: std::io::Error| format!("serve: {error}");
    let listener = listen(&options.address).map_err(failed)?;
    let mut epoll = Epoll::new()?;
    epoll.add(fd_of(&listener), fd_of(&listener).cast_unsigned().into())?;
    epoll.add(STDIN, 0)?;
    println!("{}", port(&listener).map_err(failed)?);
    let mut streams: HashMap<RawFd, Box<dyn Stream>> = HashMap::new();
    let mut buffer = vec![0; 256 * 1024];
    let mut events: Vec<Event> = Vec::new();
    loop {
        epoll.wait(&mut events, Duration::from_secs(3600))?;
        for event in &events {
            let fd = RawFd::try_from(event.token).unwrap_or(STDIN);
            if fd == STDIN {
                return Ok(());
            } else if fd != fd_of(&listener) {
                if streams
                    .get_mut(&fd)
                    .is_some_and(|stream| echo(stream, &mut buffer).is_none())
                {
                    streams.remove(&fd);
                }
            } else if let Listener::Udp(socket) = &listener {
                if let Ok((count, from)) = socket.recv_from(&mut buffer) {
                    // A datagram that does not fit is lost, as datagrams are; the client says so.
                    let _ = socket.send_to(&buffer[..count], from);
                }
            } else {
                while let Some((fd, stream)) = accept(&listener) {
                    epoll.add(fd, fd.cast_unsigned().into())?;
                    streams.insert(fd, stream);
                }
            }
        }
    }
}

fn listen(address: &Address) -> std::io::Result<Listener> {
    Ok(match address {
        Address::Tcp(place) => {
            let listener = TcpListener::bind(place)?;
            listener.set_nonblocking(true)?;
            sys::lengthen_backlog(listener.as_raw_fd());
            Listener::Tcp(listener)
        }
        Address::Udp(place) => {
            let socket = UdpSocket::bind(place)?;
            socket.set_nonblocking(true)?;
            Listener::Udp(socket)
        }
        Address::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            sys::lengthen_backlog(listener.as_raw_fd());
            Listener::Unix(listener)
        }
    })
}

fn fd_of(listener: &Listener) -> RawFd {
    match listener {
        Listener::Tcp(listener) => listener.as_raw_fd(),
        Listener::Udp(socket) => socket.as_raw_fd(),
        Listener::Unix(listener) => listener.as_raw_fd(),
    }
}

fn port(listener: &Listener) -> std::io::Result<u16> {
    Ok(match listener {
        Listener::Tcp(listener) => listener.local_addr()?.port(),
        Listener::Udp(socket) => socket.local_addr()?.port(),
        Listener::Unix(_) => 0,
    })
}

fn accept(listener: &Listener) -> Option<(RawFd, Box<dyn Stream>)> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, _) = listener.accept().ok()?;
            stream.set_nonblocking(true).ok()?;
            stream.set_nodelay(true).ok()?;
            Some((stream.as_raw_fd(), Box::new(stream)))
        }
        Listener::Unix(listener) => {
            let (stream, _) = listener.accept().ok()?;
            stream.set_nonblocking(true).ok()?;
            Some((stream.as_raw_fd(), Box::new(stream)))
        }
        Listener::Udp(_) => None,
    }
}

/// Sends back what has come; `None` at the end of the connection.
fn echo(stream: &mut Box<dyn Stream>, buffer: &mut [u8]) -> Option<()> {
    let count = match stream.read(buffer) {
        Ok(0) => return None,
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(()),
        Err(_) => return None,
    };
    let mut sent = 0;
    while sent < count {
        match stream.write(&buffer[sent..count]) {
            Ok(more) => sent += more,
            // The client reads while it writes, so there will be room in a moment.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(_) => return None,
        }
    }
    Some(())
}
