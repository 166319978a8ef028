//! How large data crosses between a node and its peer: as sealed files (`beam/sealed_memory.rs`)
//! through a Unix socket, beside the messages of Erlang's distribution. For `py_peer_memory`.
//!
//! A file is sent before the message that mentions its number. So it has arrived when that message
//! has, and neither side waits for the socket. What is in the socket when either process ends is
//! freed by the kernel.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::beam::resource::{Resource, TypeCell};
use crate::beam::sealed_memory::{MemoryFile, Part, copy_of};

/// A node waits for its peer here, once. The name is in no folder, and ends with the socket.
pub struct MemoryListener(Mutex<Option<OwnedFd>>);

impl MemoryListener {
    pub fn new(name: &[u8]) -> io::Result<Self> {
        let socket = socket()?;
        net::bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
        net::listen(&socket, 16)?;
        Ok(MemoryListener(Mutex::new(Some(socket))))
    }

    /// The connection of the peer, which has connected and sent this secret before. Others, which
    /// may come from any user of this machine, are closed, and then the listening socket is.
    pub fn accept(&self, secret: &[u8]) -> io::Result<MemoryLink> {
        // Nothing panics while it is locked.
        let listening = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listening = listening.ok_or_else(closed)?;
        loop {
            let socket =
                net::accept_with(&listening, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
            let mut sent = vec![0; secret.len() + 1];
            if let Ok((count, _)) = net::recv(&socket, &mut sent[..], RecvFlags::DONTWAIT)
                && sent[..count] == *secret
            {
                return Ok(MemoryLink::new(socket));
            }
        }
    }
}

fn closed() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOTCONN)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

impl Resource for MemoryListener {
    const NAME: &'static CStr = c"erlang_loop.memory_listener";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}

/// What is about to be sent: a part of a sealed file.
pub struct Share {
    part: Part,
    /// Whether the file was created for it.
    is_copy: bool,
}

impl Share {
    /// Without a copy if the bytes are mapped from a sealed file.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        Ok(match Part::of(bytes) {
            Some(part) => Share {
                part,
                is_copy: false,
            },
            None => Share {
                part: copy_of(bytes)?,
                is_copy: true,
            },
        })
    }
}

impl Resource for Share {
    const NAME: &'static CStr = c"erlang_loop.share";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}

/// The connection.
pub struct MemoryLink {
    /// None after it was closed.
    socket: RwLock<Option<OwnedFd>>,
    sent: AtomicU64,
    received: Mutex<Received>,
    pub counts: Counts,
}

/// Binaries and bytes. `copied`: those among the sent ones that had to be copied into a file.
#[derive(Default)]
pub struct Counts {
    pub sent: Count,
    pub copied: Count,
    pub received: Count,
}

#[derive(Default)]
pub struct Count(AtomicU64, AtomicU64);

impl Count {
    /// Relaxed: nothing depends on it.
    fn add(&self, bytes: usize) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> (u64, u64) {
        (
            self.0.load(Ordering::Relaxed),
            self.1.load(Ordering::Relaxed),
        )
    }
}

struct Received {
    /// Numbered files whose messages have not been handled yet; an error: this process had no fd.
    parts: HashMap<u64, io::Result<Part>>,
    /// Closed to make room for the fd that arrives, so that one can when there are no more.
    reserve: Option<OwnedFd>,
}

/// Number, offset, size.
const HEAD: usize = 24;

impl MemoryLink {
    fn new(socket: OwnedFd) -> Self {
        let reserve = reserve(&socket);
        MemoryLink {
            socket: RwLock::new(Some(socket)),
            sent: AtomicU64::new(0),
            received: Mutex::new(Received {
                parts: HashMap::new(),
                reserve,
            }),
            counts: Counts::default(),
        }
    }

    pub fn connect(name: &[u8], secret: &[u8]) -> io::Result<Self> {
        let socket = socket()?;
        net::connect(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
        net::send(&socket, secret, SendFlags::NOSIGNAL)?;
        Ok(MemoryLink::new(socket))
    }

    /// Logs may keep references to it for long.
    pub fn close(&self) {
        let mut received = self.received();
        received.parts.clear();
        received.reserve = None;
        *self.socket.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Calls `act` with the socket.
    fn with<R>(&self, act: impl FnOnce(&OwnedFd) -> io::Result<R>) -> io::Result<R> {
        // Nothing panics while it is locked.
        let socket = self.socket.read().unwrap_or_else(PoisonError::into_inner);
        act(socket.as_ref().ok_or_else(closed)?)
    }

    /// The number that the other side finds it by. Fails at once if the socket is full, or the other
    /// process has ended.
    pub fn send(&self, share: &Share) -> io::Result<u64> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let part = &share.part;
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&number.to_ne_bytes());
        head[8..16].copy_from_slice(&part.offset.to_ne_bytes());
        head[16..].copy_from_slice(&(part.size as u64).to_ne_bytes());
        let files = [part.file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.with(|socket| {
            Ok(net::sendmsg(
                socket,
                &[IoSlice::new(&head)],
                &mut control,
                flags,
            )?)
        })?;
        self.counts.sent.add(part.size);
        if share.is_copy {
            self.counts.copied.add(part.size);
        }
        Ok(number)
    }

    /// Calls `map` with the file with this number, which was sent before the message that mentions
    /// it, and whether this process has fds to keep it open.
    pub fn take<R>(
        &self,
        number: u64,
        map: impl FnOnce(&Part, bool) -> io::Result<R>,
    ) -> io::Result<R> {
        let part = self.take_part(number)?;
        let result = map(&part, self.received().reserve.is_some());
        drop(part);
        let mut received = self.received();
        if received.reserve.is_none() {
            received.reserve = self.with(|socket| Ok(reserve(socket))).ok().flatten();
        }
        result
    }

    fn take_part(&self, number: u64) -> io::Result<Part> {
        let mut received = self.received();
        loop {
            if let Some(part) = received.parts.remove(&number) {
                if let Ok(part) = &part {
                    self.counts.received.add(part.size);
                }
                return part;
            }
            let (next, part) = self.receive(&mut received)?;
            received.parts.insert(next, part);
        }
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        // Nothing panics in between.
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self, received: &mut Received) -> io::Result<(u64, io::Result<Part>)> {
        received.reserve = None;
        self.with(|socket| {
            let result = receive_one(socket);
            received.reserve = reserve(socket);
            result
        })
    }
}

fn reserve(socket: &OwnedFd) -> Option<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(socket, 0).ok()
}

fn receive_one(socket: &OwnedFd) -> io::Result<(u64, io::Result<Part>)> {
    let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
    let mut head = [0; HEAD];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut into = [IoSliceMut::new(&mut head)];
    let message = match net::recvmsg(socket, &mut into, &mut control, flags) {
        // The other process has ended before it has read all. Reported once; what it has sent is
        // still there.
        Err(Errno::CONNRESET) => net::recvmsg(socket, &mut into, &mut control, flags),
        other => other,
    }?;
    if message.bytes == 0 {
        return Err(Errno::CONNRESET.into());
    }
    let file = control.drain().find_map(|each| match each {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    if message.bytes != HEAD {
        return Err(invalid());
    }
    let word = |at: usize| {
        let bytes = head[at..at + 8].try_into();
        u64::from_ne_bytes(bytes.expect("eight bytes of twenty-four"))
    };
    let part = match file {
        Some(file) => usize::try_from(word(16))
            .map_err(|_| invalid())
            .map(|size| Part {
                file: MemoryFile::new(file, size),
                offset: word(8),
                size,
            }),
        None if message.flags.contains(ReturnFlags::CTRUNC) => {
            Err(io::Error::from_raw_os_error(libc::EMFILE))
        }
        None => Err(invalid()),
    };
    Ok((word(0), part))
}

impl Resource for MemoryLink {
    const NAME: &'static CStr = c"erlang_loop.memory_link";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}
