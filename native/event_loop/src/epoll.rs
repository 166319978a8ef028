//! The set of descriptors a loop waits on, and the buffer its events arrive in. `watches`
//! fills the set; `event_loop` polls it. The set's own descriptor is what the BEAM watches
//! while the loop is parked: it is readable exactly while the set has events.

use crate::error::Result;
use crate::sys::epoll as sys;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// What a descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Tell when it can be read, or has reached its end.
    pub read: bool,
    /// Tell when it can be written.
    pub write: bool,
    /// Tell once per change instead of as long as it lasts.
    pub edge: bool,
    /// Tell once, then fall silent until modified.
    pub oneshot: bool,
}

impl Interest {
    /// The bell and the timer: readable, once per change, so that nobody has to read them.
    pub const SIGNAL: Self = Self {
        read: true,
        write: false,
        edge: true,
        oneshot: false,
    };

    /// `EPOLLRDHUP` is left out as in asyncio: a half-closed peer is an end of file to a
    /// reader and nothing to a writer. `EPOLLHUP` and `EPOLLERR` come unasked.
    fn flags(self) -> u32 {
        let mut flags = 0;
        if self.read {
            flags |= libc::EPOLLIN;
        }
        if self.write {
            flags |= libc::EPOLLOUT;
        }
        if self.edge {
            flags |= libc::EPOLLET;
        }
        if self.oneshot {
            flags |= libc::EPOLLONESHOT;
        }
        flags.cast_unsigned()
    }
}

/// An epoll set. All methods take any thread; the kernel does the locking.
#[derive(Debug)]
pub struct EpollSet {
    fd: OwnedFd,
}

impl EpollSet {
    /// An empty set, close-on-exec.
    ///
    /// # Errors
    /// [`Os`](crate::Error::Os) when descriptors or memory have run out.
    pub fn new() -> Result<Self> {
        Ok(Self { fd: sys::create()? })
    }

    /// The set's own descriptor.
    #[must_use]
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Puts `fd` into the set; its events will carry `token`.
    ///
    /// # Errors
    /// [`BadFd`](crate::Error::BadFd), [`NotPollable`](crate::Error::NotPollable), or
    /// `Os(EEXIST)` when it is inside already.
    pub fn add(&self, fd: RawFd, interest: Interest, token: u64) -> Result<()> {
        sys::control(
            self.fd.as_fd(),
            libc::EPOLL_CTL_ADD,
            fd,
            interest.flags(),
            token,
        )
    }

    /// Changes interest and token of `fd`, and reports it anew if it is ready now.
    ///
    /// # Errors
    /// [`BadFd`](crate::Error::BadFd), or `Os(ENOENT)` when it is not inside.
    pub fn modify(&self, fd: RawFd, interest: Interest, token: u64) -> Result<()> {
        sys::control(
            self.fd.as_fd(),
            libc::EPOLL_CTL_MOD,
            fd,
            interest.flags(),
            token,
        )
    }

    /// Takes `fd` out.
    ///
    /// # Errors
    /// [`BadFd`](crate::Error::BadFd), or `Os(ENOENT)` when it is not inside.
    pub fn delete(&self, fd: RawFd) -> Result<()> {
        sys::control(self.fd.as_fd(), libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// Waits at most `timeout` nanoseconds (`None`: for ever) and fills `out` anew. Answers the
    /// number of events; a signal counts as none.
    ///
    /// # Errors
    /// None is known for a set of ours; whatever the kernel says is passed on.
    pub fn poll(&self, out: &mut EventBuffer, timeout: Option<u64>) -> Result<usize> {
        out.clear_or_grow();
        out.len = sys::wait(self.fd.as_fd(), &mut out.events, timeout)?;
        Ok(out.len)
    }
}

/// One event as the kernel told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawEvent {
    /// What the descriptor was registered with.
    pub token: u64,
    /// Data or an end of file to read.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
    /// Both sides are closed.
    pub hangup: bool,
    /// The descriptor has an error to report.
    pub error: bool,
}

/// Room for the events of one poll. Starts with nothing, then small, and doubles when it came back full, so that
/// an idle loop stays light and a busy one needs few calls.
#[derive(Debug)]
pub struct EventBuffer {
    events: Vec<sys::EpollEvent>,
    len: usize,
}

impl EventBuffer {
    const FIRST: usize = 64;
    const LAST: usize = 4096;
    const NOTHING: sys::EpollEvent = sys::EpollEvent { events: 0, u64: 0 };

    /// Room for 64 events, once there is a poll.
    #[must_use]
    pub fn new() -> Self {
        Self {
            events: Vec::new(),
            len: 0,
        }
    }

    /// How many events the last poll brought.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the last poll brought nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the last poll filled the buffer: there may be more where that came from.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len > 0 && self.len == self.events.len()
    }

    /// Forgets the events.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The events of the last poll.
    pub fn iter(&self) -> impl Iterator<Item = RawEvent> + '_ {
        self.events[..self.len].iter().map(|event| {
            let (flags, token) = (event.events.cast_signed(), event.u64);
            RawEvent {
                token,
                readable: flags & libc::EPOLLIN != 0,
                writable: flags & libc::EPOLLOUT != 0,
                hangup: flags & libc::EPOLLHUP != 0,
                error: flags & libc::EPOLLERR != 0,
            }
        })
    }

    fn clear_or_grow(&mut self) {
        if self.events.is_empty() {
            self.events.resize(Self::FIRST, Self::NOTHING);
        } else if self.is_full() && self.events.len() < Self::LAST {
            self.events.resize(self.events.len() * 2, Self::NOTHING);
        }
        self.clear();
    }
}

impl Default for EventBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const READ: Interest = Interest {
        read: true,
        write: false,
        edge: false,
        oneshot: false,
    };

    #[test]
    fn tells_what_is_readable_until_it_is_taken_out() {
        let set = EpollSet::new().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut out = EventBuffer::new();
        set.add(far.as_raw_fd(), READ, 7).unwrap();
        assert_eq!(set.poll(&mut out, Some(0)), Ok(0));

        near.write_all(b"x").unwrap();
        assert_eq!(set.poll(&mut out, None), Ok(1));
        let event = out.iter().next().unwrap();
        assert!(event.token == 7 && event.readable && !event.writable && !event.hangup);

        set.delete(far.as_raw_fd()).unwrap();
        assert_eq!(set.poll(&mut out, Some(0)), Ok(0));
        assert_eq!(set.delete(far.as_raw_fd()), Err(Error::Os(libc::ENOENT)));
    }

    #[test]
    fn refuses_what_cannot_be_waited_for() {
        let set = EpollSet::new().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(set.add(file.as_raw_fd(), READ, 0), Err(Error::NotPollable));
        assert_eq!(set.add(-1, READ, 0), Err(Error::BadFd));
    }

    #[test]
    fn the_buffer_doubles_when_it_came_back_full() {
        let set = EpollSet::new().unwrap();
        let pairs: Vec<_> = (0..70).map(|_| UnixStream::pair().unwrap()).collect();
        let write = Interest {
            write: true,
            ..Interest::default()
        };
        for (i, (near, _)) in pairs.iter().enumerate() {
            set.add(near.as_raw_fd(), write, i as u64).unwrap();
        }
        let mut out = EventBuffer::new();
        assert_eq!(set.poll(&mut out, Some(0)), Ok(64));
        assert!(out.is_full());
        assert_eq!(set.poll(&mut out, Some(0)), Ok(70));
        assert!(!out.is_full());
    }
}
