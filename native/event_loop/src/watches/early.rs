//! Writers that are told at once. Most descriptors can be written to when somebody asks for it,
//! and most who ask want to hear of it once. To have the kernel watch for that is two calls, one
//! there and one back; to ask it whether it is so is one. Only a writer that stays after it was
//! told is watched for.
//!
//! Only for a descriptor that the kernel watches for a reader already: so it is known to be one
//! that can be watched.

use super::{Direction, EpollSet, Mode, Ready, Result, Slot, Watch, WatchId, Watches};
use crate::sys::poll;
use std::os::fd::RawFd;

/// A writer that was not asked for in the kernel.
#[derive(Debug)]
pub(super) struct Early {
    fd: RawFd,
    serial: u64,
    told: bool,
}

impl Watches {
    /// As [`watch`](Self::watch), for a writer, as long as it lasts. If it can write now, and
    /// the kernel watches for a reader only, it is told by [`tell_early`](Self::tell_early).
    ///
    /// # Errors
    /// As `watch`.
    pub fn watch_writer(&mut self, set: &EpollSet, fd: RawFd, key: u64) -> Result<WatchId> {
        let slot = self.slots.get_mut(&fd).filter(|slot| slot.reads_only());
        let Some(slot) = slot.filter(|_| poll::is_writable(fd)) else {
            return self.watch(set, fd, Direction::Write, key, Mode::LEVEL);
        };
        self.serial += 1;
        let serial = self.serial;
        *slot.side(Direction::Write) = Some(Watch {
            key,
            serial,
            mode: Mode::LEVEL,
            paused: false,
            early: true,
        });
        self.early.push(Early {
            fd,
            serial,
            told: false,
        });
        Ok(WatchId {
            fd,
            generation: slot.generation,
            serial,
        })
    }

    /// Whether [`tell_early`](Self::tell_early) has something to do.
    #[must_use]
    pub fn any_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Appends the writers that can write to `out`. Those that were told before, and are still
    /// there, are watched for by the kernel from now on.
    pub fn tell_early(&mut self, set: &EpollSet, out: &mut Vec<Ready>) {
        let mut known = std::mem::take(&mut self.early);
        known.retain_mut(|early| {
            let slot = self.slots.get_mut(&early.fd);
            let Some((slot, watch)) = slot.and_then(|slot| early.watch(slot)) else {
                return false; // removed, or replaced
            };
            let generation = slot.generation;
            if std::mem::replace(&mut early.told, true) {
                if let Some(watch) = slot.side(Direction::Write) {
                    watch.early = false;
                }
                let outcome = slot.register(set, early.fd, false);
                if outcome.is_ok() || self.drop_if_gone(early.fd, outcome) {
                    return false;
                }
                // The kernel has no memory for it: told once more, and asked for again then.
            }
            if !watch.paused {
                out.push(Ready {
                    fd: early.fd,
                    generation,
                    read: None,
                    write: Some(watch.key),
                });
            }
            true
        });
        self.early = known;
    }
}

impl Early {
    /// The watch, if it is still this one.
    fn watch<'a>(&self, slot: &'a mut Slot) -> Option<(&'a mut Slot, Watch)> {
        let watch = *slot.peek(Direction::Write)?;
        (watch.serial == self.serial).then_some((slot, watch))
    }
}
