//! The set of descriptors that a loop waits on, and the buffer for its events. `watches` fills the
//! set; `event_loop` polls it. The BEAM watches the set's own descriptor while the loop is parked:
//! it is readable exactly while the set has events.

use crate::error::Result;
use crate::sys::epoll::{self as sys, borrow};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// What a descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Report when it can be read, or has reached its end.
    pub read: bool,
    /// Report when it can be written.
    pub write: bool,
    /// Report once per change instead of as long as it lasts.
    pub edge: bool,
    /// Report once, then nothing until modified.
    pub oneshot: bool,
}

impl Interest {
    /// For the bell and the timer: readable, once per change, so that they need not be read.
    pub const SIGNAL: Self = Self {
        read: true,
        write: false,
        edge: true,
        oneshot: false,
    };

    /// `EPOLLRDHUP` is not requested, as in asyncio: a half-closed peer is an end of file to a
    /// reader and nothing to a writer. `EPOLLHUP` and `EPOLLERR` are always reported.
    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags.set(EventFlags::ET, self.edge);
        flags.set(EventFlags::ONESHOT, self.oneshot);
        flags
    }
}

/// An epoll set. All methods work on any thread; the kernel does the locking.
#[derive(Debug)]
pub struct EpollSet {
    fd: OwnedFd,
}

impl EpollSet {
    /// An empty set, close-on-exec.
    ///
    /// # Errors
    /// [`Os`](crate::Error::Os) if there are no descriptors or memory left.
    pub fn new() -> Result<Self> {
        Ok(Self {
            fd: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    /// The set's own descriptor.
    #[must_use]
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Adds `fd` to the set; its events will carry `token`.
    ///
    /// # Errors
    /// [`BadFd`](crate::Error::BadFd), [`NotPollable`](crate::Error::NotPollable), or `Os(EEXIST)`
    /// if it is in the set already.
    pub fn add(&self, fd: RawFd, interest: Interest, token: u64) -> Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.fd, borrow(fd)?, data, interest.flags())?)
    }

    /// Changes interest and token of `fd`, and reports it again if it is ready now.
    ///
    /// # Errors
    /// [`BadFd`](crate::Error::BadFd), or `Os(ENOENT)` if it is not in the set.
    pub fn modify(&self, fd: RawFd, interest: Interest, token: u64) -> Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(
            &self.fd,
            borrow(fd)?,
            data,
            interest.flags(),
        )?)
    }

    /// Removes `fd`.
    ///
    /// # Errors
    /// [`BadFd`](crate::Error::BadFd), or `Os(ENOENT)` if it is not in the set.
    pub fn delete(&self, fd: RawFd) -> Result<()> {
        Ok(epoll::delete(&self.fd, borrow(fd)?)?)
    }

    /// Waits at most `timeout` nanoseconds (`None`: forever) and replaces the contents of `out`.
    /// Returns the number of events; a signal ends the wait with none.
    ///
    /// # Errors
    /// None is known for our sets; errors of the kernel are passed on.
    pub fn poll(&self, out: &mut EventBuffer, timeout: Option<u64>) -> Result<usize> {
        out.clear_or_grow();
        sys::wait(self.fd.as_fd(), &mut out.events.0, timeout)?;
        Ok(out.len())
    }
}

/// One event as the kernel reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawEvent {
    /// The token that the descriptor was registered with.
    pub token: u64,
    /// Data or an end of file to read.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// Both sides are closed.
    pub hangup: bool,
    /// The descriptor has an error to report.
    pub error: bool,
}

/// Space for the events of one poll. Starts empty, then small, and doubles when a poll filled it,
/// so that an idle loop needs little memory and a busy one few calls.
#[derive(Default)]
pub struct EventBuffer {
    events: sys::Events,
}

impl EventBuffer {
    const FIRST: usize = 64;
    const LAST: usize = 4096;

    /// Space for 64 events, allocated at the first poll.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events the last poll returned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.0.len()
    }

    /// Whether the last poll returned no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.0.is_empty()
    }

    /// Whether the last poll filled the buffer: there may be more events.
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.is_empty() && self.len() == self.events.0.capacity()
    }

    /// Removes the events.
    pub fn clear(&mut self) {
        self.events.0.clear();
    }

    /// The events of the last poll.
    pub fn iter(&self) -> impl Iterator<Item = RawEvent> + '_ {
        self.events.0.iter().map(|event| {
            let flags = event.flags;
            RawEvent {
                token: event.data.u64(),
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                hangup: flags.contains(EventFlags::HUP),
                error: flags.contains(EventFlags::ERR),
            }
        })
    }

    fn clear_or_grow(&mut self) {
        let room = match self.events.0.capacity() {
            0 => Self::FIRST,
            room if self.is_full() && room < Self::LAST => room * 2,
            room => room,
        };
        self.clear();
        self.events.0.reserve_exact(room);
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
    fn a_readable_fd_is_reported_until_it_is_removed() {
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
