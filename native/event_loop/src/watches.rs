//! The watches of a loop: at most one reader and one writer per descriptor. Keeps the epoll set in
//! agreement with them. `event_loop` has it behind a mutex.
//!
//! Descriptor numbers are reused, and their owners may close them without telling the loop. So each
//! registration has a *generation* in its epoll token, and an event of an older one is dropped;
//! each watch has a *serial*, and an id of an older one is stale.

use crate::epoll::{EpollSet, RawEvent};
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;
use slot::{Slot, Watch};
use std::os::fd::RawFd;

mod slot;
mod words;

pub use words::{Direction, Mode, Ready, WatchId};

/// All watches of one loop.
///
/// A hash table, not an array by number: numbers are dense in the process but not in a loop. With
/// thousands of loops an array would cost each of them the space of all descriptors.
#[derive(Debug, Default)]
pub struct Watches {
    slots: FxHashMap<RawFd, Slot>,
    generation: u32,
    serial: u64,
}

impl Watches {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports events of `fd` to `key` from now on, instead of the previous key of that direction.
    ///
    /// # Errors
    /// [`BadFd`](Error::BadFd) for a closed number, [`NotPollable`](Error::NotPollable) for a
    /// regular file; then it is not watched any more. `Os` if the kernel lacks memory; then nothing
    /// has changed.
    pub fn watch(
        &mut self,
        set: &EpollSet,
        fd: RawFd,
        dir: Direction,
        key: u64,
        mode: Mode,
    ) -> Result<WatchId> {
        if fd < 0 {
            return Err(Error::BadFd);
        }
        self.serial += 1;
        let serial = self.serial;
        let watch = Watch {
            key,
            serial,
            mode,
            paused: false,
        };
        let slot = self
            .slots
            .entry(fd)
            .or_insert_with(|| Slot::new(fresh(&mut self.generation)));
        let before = slot.side(dir).replace(watch);
        // Replacing a watch updates the kernel even if the interest is the same: the number may
        // have been closed and reused since, and a new edge watch must report what is ready now.
        let mut outcome = slot.register(set, fd, before.is_some());
        if outcome == Err(Error::Os(libc::ENOENT)) {
            // The number was reused: the other direction's watch belonged to the old descriptor.
            *slot = Slot::new(fresh(&mut self.generation));
            *slot.side(dir) = Some(watch);
            outcome = slot.register(set, fd, false);
        }
        let generation = slot.generation;
        match outcome {
            Ok(()) => Ok(WatchId {
                fd,
                generation,
                serial,
            }),
            Err(error @ (Error::BadFd | Error::NotPollable)) => {
                self.slots.remove(&fd); // closed, or reused by a file
                Err(error)
            }
            Err(error) => {
                *slot.side(dir) = before;
                if slot.is_empty() {
                    self.slots.remove(&fd);
                }
                Err(error)
            }
        }
    }

    /// Ends a watch. `false` if it had ended already.
    pub fn unwatch(&mut self, set: &EpollSet, id: WatchId, dir: Direction) -> bool {
        self.find(id, dir).is_some() && self.unwatch_fd(set, id.fd, dir).is_some()
    }

    /// Ends any watch of `fd` in this direction and returns its key.
    ///
    /// A disabled entry may stay in the kernel's set: it reports nothing, whatever happens to the
    /// descriptor and its duplicates, and the next watch of it takes one call, not two.
    pub fn unwatch_fd(&mut self, set: &EpollSet, fd: RawFd, dir: Direction) -> Option<u64> {
        let slot = self.slots.get_mut(&fd)?;
        let watch = slot.side(dir).take()?;
        if slot.is_empty() && slot.is_silent() {
            return Some(watch.key);
        }
        if slot.is_empty() {
            self.forget_fd(set, fd);
        } else {
            let outcome = slot.register(set, fd, false);
            self.drop_if_gone(fd, outcome);
        }
        Some(watch.key)
    }

    /// Keeps the watch but reports nothing until it is resumed. Repeated calls have no further
    /// effect.
    ///
    /// # Errors
    /// [`Stale`](Error::Stale) if the watch is gone, `Os` if the kernel rejected it.
    pub fn pause(&mut self, set: &EpollSet, id: WatchId, dir: Direction) -> Result<()> {
        self.set_paused(set, id, dir, true)
    }

    /// As [`pause`](Self::pause), for any watch of `fd` in this direction.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn pause_fd(&mut self, set: &EpollSet, fd: RawFd, dir: Direction) -> Result<()> {
        let slot = self.slots.get(&fd).ok_or(Error::Stale)?;
        let id = WatchId {
            fd,
            generation: slot.generation,
            serial: slot.peek(dir).ok_or(Error::Stale)?.serial,
        };
        self.pause(set, id, dir)
    }

    /// Resumes a paused watch. Repeated calls have no further effect.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn resume(&mut self, set: &EpollSet, id: WatchId, dir: Direction) -> Result<()> {
        self.set_paused(set, id, dir, false)
    }

    fn set_paused(&mut self, set: &EpollSet, id: WatchId, dir: Direction, to: bool) -> Result<()> {
        let watch = self.find(id, dir).ok_or(Error::Stale)?;
        if watch.paused == to {
            return Ok(());
        }
        watch.paused = to;
        let slot = self.slots.get_mut(&id.fd).ok_or(Error::Stale)?;
        let outcome = slot.register(set, id.fd, false);
        if self.drop_if_gone(id.fd, outcome) {
            return Err(Error::Stale);
        }
        if outcome.is_err()
            && let Some(watch) = self.find(id, dir)
        {
            watch.paused = !to;
        }
        outcome
    }

    /// Ends both watches of `fd`; call it before `fd` is closed, because a duplicate elsewhere
    /// would keep the kernel's entry alive. A number that is closed or was never watched is fine.
    pub fn forget_fd(&mut self, set: &EpollSet, fd: RawFd) {
        if let Some(slot) = self.slots.remove(&fd) {
            slot.deregister(set, fd);
        }
    }

    /// Ends all watches.
    pub fn clear(&mut self, set: &EpollSet) {
        for (fd, slot) in self.slots.drain() {
            slot.deregister(set, fd);
        }
    }

    /// The key watching `fd` in this direction, paused or not.
    #[must_use]
    pub fn key(&self, fd: RawFd, dir: Direction) -> Option<u64> {
        self.slots.get(&fd)?.peek(dir).map(|watch| watch.key)
    }

    /// How many descriptors are watched, paused ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fds().count()
    }

    /// Whether nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fds().next().is_none()
    }

    /// The watched descriptors, in any order.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        let watched = self.slots.iter().filter(|(_, slot)| !slot.is_empty());
        watched.map(|(fd, _)| *fd)
    }

    /// Determines which watches an event concerns. Every polled event must pass through here: the
    /// kernel has disabled a oneshot descriptor by reporting it, and this records that, and enables
    /// the direction that did not fire again.
    pub fn resolve(&mut self, set: &EpollSet, event: &RawEvent) -> Ready {
        let (fd, generation) = untoken(event.token);
        let mut ready = Ready {
            fd,
            generation,
            read: None,
            write: None,
        };
        let Some(slot) = self
            .slots
            .get_mut(&fd)
            .filter(|s| s.generation == generation)
        else {
            return ready; // registered before the number was reused
        };
        (ready.read, ready.write) = slot.fire(event);
        if slot.has_oneshot() {
            // It may have just fired, so the entry may need an update.
            let outcome = slot.register(set, fd, false);
            self.drop_if_gone(fd, outcome);
        }
        ready
    }

    fn find(&mut self, id: WatchId, dir: Direction) -> Option<&mut Watch> {
        let watch = self.slots.get_mut(&id.fd)?.side(dir).as_mut()?;
        (watch.serial == id.serial).then_some(watch)
    }

    /// The kernel no longer has the descriptor: it was closed without telling the loop, and its
    /// watches end.
    fn drop_if_gone(&mut self, fd: RawFd, outcome: Result<()>) -> bool {
        let gone = matches!(
            outcome,
            Err(Error::BadFd | Error::NotPollable | Error::Os(libc::ENOENT))
        );
        if gone {
            self.slots.remove(&fd);
        }
        gone
    }
}

/// Wraps after 2^32 registrations; a stale event would have to be exactly that old.
fn fresh(generation: &mut u32) -> u32 {
    *generation = generation.wrapping_add(1);
    *generation
}

/// A descriptor is not negative, so the low half never reaches the reserved tokens.
fn token(fd: RawFd, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(fd.cast_unsigned())
}

#[allow(clippy::cast_possible_truncation)] // taking the two halves apart is the point
fn untoken(token: u64) -> (RawFd, u32) {
    ((token as u32).cast_signed(), (token >> 32) as u32)
}

#[cfg(test)]
mod tests;
