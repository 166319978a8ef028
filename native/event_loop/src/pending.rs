//! Events kept until a caller polls: loops driven from Erlang collect events here until
//! `get_pending` takes them. Not shared; the loop has it in a mutex.
//!
//! An event stays, whatever happens to the descriptor, until it is taken or its watch ends. So the
//! data may have been read meanwhile: the caller gets events, not the current state.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::RawFd;

use crate::watches::Direction;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A descriptor can be read.
    Read,
    /// A descriptor can be written.
    Write,
    /// A timer is due.
    Timer,
}

impl From<Direction> for Kind {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Read => Kind::Read,
            Direction::Write => Kind::Write,
        }
    }
}

/// Callback ids with what happened, in order.
///
/// A second "readable" adds nothing to the first, so a callback has one event per direction, even
/// if it watches several descriptors. A timer fires once for each time it was set, so timers are
/// not merged.
#[derive(Debug, Default)]
pub struct Pending {
    /// By an increasing number, so oldest first.
    queue: BTreeMap<u64, (u64, Kind)>,
    next: u64,
    /// The events about descriptors in the queue, by callback.
    ready: HashMap<(u64, Direction), Place>,
    /// The callbacks they are for, by descriptor.
    callbacks: HashMap<(RawFd, Direction), u64>,
}

/// An event about descriptors.
#[derive(Debug)]
struct Place {
    number: u64,
    /// How many descriptors it concerns.
    fds: usize,
}

impl Pending {
    /// No events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A descriptor is ready. No effect if that event is pending already.
    pub fn push_ready(&mut self, fd: RawFd, direction: Direction, callback: u64) {
        match self.callbacks.insert((fd, direction), callback) {
            Some(before) if before == callback => return,
            Some(before) => self.release(before, direction),
            None => {}
        }
        if let Some(place) = self.ready.get_mut(&(callback, direction)) {
            place.fds += 1;
            return;
        }
        let number = self.append(callback, direction.into());
        self.ready
            .insert((callback, direction), Place { number, fds: 1 });
    }

    /// A timer is due.
    pub fn push_timer(&mut self, callback: u64) {
        self.append(callback, Kind::Timer);
    }

    /// The watch of a descriptor has ended: its pending event is dropped.
    pub fn forget(&mut self, fd: RawFd, direction: Direction) {
        if let Some(callback) = self.callbacks.remove(&(fd, direction)) {
            self.release(callback, direction);
        }
    }

    /// Takes everything, oldest first.
    pub fn take(&mut self) -> Vec<(u64, Kind)> {
        self.ready.clear();
        self.callbacks.clear();
        std::mem::take(&mut self.queue).into_values().collect()
    }

    /// How many events are pending.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn append(&mut self, callback: u64, kind: Kind) -> u64 {
        self.next += 1;
        self.queue.insert(self.next, (callback, kind));
        self.next
    }

    /// The callback's event concerns one descriptor less.
    fn release(&mut self, callback: u64, direction: Direction) {
        let Some(place) = self.ready.get_mut(&(callback, direction)) else {
            return;
        };
        place.fds -= 1;
        if place.fds == 0 {
            let number = place.number;
            self.queue.remove(&number);
            self.ready.remove(&(callback, direction));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Read, Write};

    #[test]
    fn keeps_the_order_and_merges_equal_events() {
        let mut pending = Pending::new();
        pending.push_ready(10, Read, 1);
        pending.push_timer(2);
        pending.push_ready(10, Write, 1);
        pending.push_ready(10, Read, 1);
        pending.push_ready(11, Read, 1);
        pending.push_timer(2);
        assert_eq!(pending.len(), 4);
        let expected = [
            (1, Kind::Read),
            (2, Kind::Timer),
            (1, Kind::Write),
            (2, Kind::Timer),
        ];
        assert_eq!(pending.take(), expected);
        assert!(pending.is_empty());
        pending.push_ready(10, Read, 1);
        assert_eq!(
            pending.take(),
            [(1, Kind::Read)],
            "taken, so it counts again"
        );
    }

    #[test]
    fn events_of_an_ended_watch_are_dropped() {
        let mut pending = Pending::new();
        pending.push_ready(10, Read, 1);
        pending.push_ready(10, Write, 1);
        pending.push_ready(11, Read, 2);
        pending.forget(10, Read);
        pending.forget(10, Read);
        pending.forget(12, Read);
        assert_eq!(pending.len(), 2);
        assert_eq!(pending.take(), [(1, Kind::Write), (2, Kind::Read)]);
    }

    #[test]
    fn a_callback_of_two_descriptors_waits_until_both_are_forgotten() {
        let mut pending = Pending::new();
        pending.push_ready(10, Read, 1);
        pending.push_ready(11, Read, 1);
        pending.forget(10, Read);
        assert_eq!(pending.len(), 1);
        pending.forget(11, Read);
        assert!(pending.is_empty());
        pending.push_ready(11, Read, 1);
        assert_eq!(pending.take(), [(1, Kind::Read)]);
    }

    #[test]
    fn a_pending_event_moves_to_the_descriptors_new_callback() {
        let mut pending = Pending::new();
        pending.push_ready(10, Read, 1);
        pending.push_ready(10, Read, 2);
        assert_eq!(pending.take(), [(2, Kind::Read)]);
    }
}
