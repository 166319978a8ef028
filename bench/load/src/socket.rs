//! A connection to a server of any kind. Used by `churn` and `steady`.

use crate::Failure;
use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::time::Duration;

/// A server that sends no reply for this long hangs.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Where a server is.
#[derive(Debug)]
pub enum Address {
    Tcp(String),
    Udp(String),
    Unix(String),
}

impl FromStr for Address {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (kind, place) = text
            .split_once(':')
            .ok_or(format!("{text} is no address"))?;
        match kind {
            "tcp" => Ok(Self::Tcp(place.into())),
            "udp" => Ok(Self::Udp(place.into())),
            "unix" => Ok(Self::Unix(place.into())),
            _ => Err(format!("{kind} is neither tcp nor udp nor unix")),
        }
    }
}

/// A connected socket; blocking at first.
pub enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
    Unix(UnixStream),
}

impl Socket {
    pub fn connect(address: &Address) -> Result<Self, Failure> {
        Self::try_connect(address).map_err(|error| format!("connect to {address:?}: {error}"))
    }

    fn try_connect(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Tcp(place) => {
                let stream = TcpStream::connect(place)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Self::Tcp(stream)
            }
            Address::Udp(place) => {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                socket.connect(place)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                Self::Udp(socket)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Self::Unix(stream)
            }
        })
    }

    pub fn set_nonblocking(&self) -> Result<(), Failure> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Udp(socket) => socket.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
        .map_err(|error| format!("set_nonblocking: {error}"))
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Udp(socket) => socket.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Udp(socket) => socket.recv(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(data),
            Self::Udp(socket) => socket.send(data),
            Self::Unix(stream) => stream.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The connection ended before its reply was whole.
pub fn ended() -> Failure {
    "the server closed the connection".into()
}

/// An error of reading or writing, as a sentence.
pub fn broken(error: &io::Error) -> Failure {
    if matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    ) {
        return no_reply();
    }
    format!("the connection broke: {error}")
}

/// Nothing came for `PATIENCE`.
pub fn no_reply() -> Failure {
    format!("no reply for {} s", PATIENCE.as_secs())
}
