//! The watches of one descriptor, and what is registered in the kernel for them. `watches` calls
//! it.

use super::{Direction, Mode, token};
use crate::epoll::{EpollSet, Interest, RawEvent};
use crate::error::{Error, Result};
use std::os::fd::RawFd;

/// One direction of one descriptor, watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    pub key: u64,
    pub serial: u64,
    pub mode: Mode,
    pub paused: bool,
}

/// What the kernel holds for the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registered {
    /// Nothing. With every watch paused the descriptor must leave the set: the kernel would keep
    /// reporting hang-ups that no watch wants, and the loop would spin on them.
    Absent,
    /// An entry that a oneshot event has disabled.
    Silent,
    /// An entry that reports this.
    Armed(Interest),
}

/// A descriptor and its up to two watches.
#[derive(Debug)]
pub(super) struct Slot {
    pub generation: u32,
    registered: Registered,
    read: Option<Watch>,
    write: Option<Watch>,
}

impl Slot {
    pub fn new(generation: u32) -> Self {
        Self {
            generation,
            registered: Registered::Absent,
            read: None,
            write: None,
        }
    }

    pub fn side(&mut self, dir: Direction) -> &mut Option<Watch> {
        match dir {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }

    pub fn peek(&self, dir: Direction) -> Option<&Watch> {
        match dir {
            Direction::Read => self.read.as_ref(),
            Direction::Write => self.write.as_ref(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.read.is_none() && self.write.is_none()
    }

    /// Whether a oneshot event has disabled the kernel's entry.
    pub fn is_silent(&self) -> bool {
        self.registered == Registered::Silent
    }

    pub fn has_oneshot(&self) -> bool {
        let once = |side: &Option<Watch>| side.is_some_and(|watch| watch.mode.oneshot);
        once(&self.read) || once(&self.write)
    }

    /// What the kernel should report: `None` if nothing. Both flags hold for the whole
    /// descriptor, so each is set only if every active watch wants it.
    fn wanted(&self) -> Option<Interest> {
        let active =
            |side: &Option<Watch>| side.filter(|watch| !watch.paused).map(|watch| watch.mode);
        let (read, write) = (active(&self.read), active(&self.write));
        let mut modes = read.iter().chain(&write).peekable();
        modes.peek()?;
        let (edge, oneshot) = modes.fold((true, true), |(edge, once), m| {
            (edge && m.edge, once && m.oneshot)
        });
        Some(Interest {
            read: read.is_some(),
            write: write.is_some(),
            edge,
            oneshot,
        })
    }

    /// Updates the kernel's entry to match the watches; makes no call if it matches already, unless
    /// `ask` requires one. `Os(ENOENT)` means that the entry is gone: the number was closed and
    /// reused.
    pub fn register(&mut self, set: &EpollSet, fd: RawFd, ask: bool) -> Result<()> {
        let token = token(fd, self.generation);
        match (self.registered, self.wanted()) {
            (Registered::Absent | Registered::Silent, None) => return Ok(()),
            (Registered::Armed(now), Some(next)) if now == next && !ask => return Ok(()),
            (Registered::Armed(_), None) => {
                self.registered = Registered::Absent;
                return set.delete(fd);
            }
            (Registered::Absent, Some(next)) => match set.add(fd, next, token) {
                // The entry of an earlier descriptor with this number, which was restored (dup2).
                Err(Error::Os(libc::EEXIST)) => set.modify(fd, next, token)?,
                outcome => outcome?,
            },
            (Registered::Silent | Registered::Armed(_), Some(next)) => {
                set.modify(fd, next, token)?;
            }
        }
        self.registered = self.wanted().map_or(Registered::Absent, Registered::Armed);
        Ok(())
    }

    /// Removes the descriptor from the set. It may be closed already, which has the same effect.
    pub fn deregister(self, set: &EpollSet, fd: RawFd) {
        if self.registered != Registered::Absent {
            let _gone_already = set.delete(fd);
        }
    }

    /// The keys that an event concerns. Hang-up and error concern both, as in asyncio: the next
    /// read or write returns the error.
    pub fn fire(&mut self, event: &RawEvent) -> (Option<u64>, Option<u64>) {
        if matches!(
            self.registered,
            Registered::Armed(Interest { oneshot: true, .. })
        ) {
            self.registered = Registered::Silent;
        }
        let broken = event.hangup || event.error;
        let fired = |side: &mut Option<Watch>, ready: bool| {
            let watch = side.as_mut().filter(|watch| ready && !watch.paused)?;
            watch.paused = watch.mode.oneshot;
            Some(watch.key)
        };
        (
            fired(&mut self.read, event.readable || broken),
            fired(&mut self.write, event.writable || broken),
        )
    }
}
