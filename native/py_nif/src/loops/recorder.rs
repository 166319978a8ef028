//! The flight recorder of a loop: what it did last, always on, for `py_recorder`. A ring of events, and
//! the stacks of its last slow turns, which `slow_turns` adds.
//!
//! An event is two words, and costs as many stores: the loop's thread writes them, and any thread
//! reads them. A reader copies all, and drops those that were overwritten meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::cpython::sampling::Frame;

/// A power of two.
const EVENTS: usize = 256;
/// How many stacks are kept.
const SLOW: usize = 16;
/// Behind the kind.
const VALUE: u64 = (1 << 56) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A turn of at least 1 ms has ended: its duration (ns).
    Turn = 1,
    /// The thread waited for the GIL for at least 0.1 ms (ns).
    GilWait = 2,
    /// An fd became ready.
    Fd = 3,
    /// The number of timers that were due.
    Timers = 4,
    /// A request begins, ends, or is cancelled: its number.
    RequestIn = 5,
    RequestOut = 6,
    Cancel = 7,
}

pub const KINDS: [Kind; 7] = [
    Kind::Turn,
    Kind::GilWait,
    Kind::Fd,
    Kind::Timers,
    Kind::RequestIn,
    Kind::RequestOut,
    Kind::Cancel,
];

#[derive(Default)]
struct Event {
    time: AtomicU64,
    what: AtomicU64,
}

struct Ring {
    /// How many were written.
    count: AtomicU64,
    events: [Event; EVENTS],
}

/// A turn that took long, as it was seen while it lasted.
pub struct SlowTurn {
    pub turn: u64,
    /// When the turn began, and how long it had lasted by then (ns).
    pub began: u64,
    pub lasted: u64,
    /// Innermost first.
    pub stack: Vec<Frame>,
}

#[derive(Default)]
pub struct Recorder {
    /// A loop that never ran has none.
    ring: OnceLock<Box<Ring>>,
    slow: Mutex<VecDeque<SlowTurn>>,
}

impl Recorder {
    /// Records an event. On the loop's thread.
    #[inline]
    pub fn record(&self, kind: Kind, time: u64, value: u64) {
        let ring = self.ring.get_or_init(Ring::new);
        // The count of the event before is written before this one: see `events`.
        fence(Ordering::Release);
        // Only this thread writes it.
        let count = ring.count.load(Ordering::Relaxed);
        let event = &ring.events[count as usize % EVENTS];
        event.time.store(time, Ordering::Relaxed);
        let what = u64::from(kind as u8) << 56 | value & VALUE;
        event.what.store(what, Ordering::Relaxed);
        // Release: this event was written before.
        ring.count.store(count + 1, Ordering::Release);
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<(u64, Kind, u64)> {
        let Some(ring) = self.ring.get() else {
            return Vec::new();
        };
        let end = ring.count.load(Ordering::Acquire);
        let begin = end.saturating_sub(EVENTS as u64);
        let copied: Vec<_> = (begin..end)
            .map(|number| {
                let event = &ring.events[number as usize % EVENTS];
                let time = event.time.load(Ordering::Relaxed);
                (number, time, event.what.load(Ordering::Relaxed))
            })
            .collect();
        // Acquire: whatever was read above was written before the count that is read now. The event
        // after that count may be half written.
        fence(Ordering::Acquire);
        let valid = (ring.count.load(Ordering::Relaxed) + 1).saturating_sub(EVENTS as u64);
        copied
            .into_iter()
            .filter(|(number, ..)| *number >= valid)
            .filter_map(|(_, time, what)| {
                let kind = KINDS.iter().find(|kind| **kind as u64 == what >> 56)?;
                Some((time, *kind, what & VALUE))
            })
            .collect()
    }

    pub fn slow(&self) -> MutexGuard<'_, VecDeque<SlowTurn>> {
        // Whole entries are added and removed.
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn that was added before is replaced: it has lasted for longer.
    pub fn add_slow(&self, seen: SlowTurn) {
        let mut slow = self.slow();
        if slow
            .back()
            .is_some_and(|last| last.turn == seen.turn && last.stack == seen.stack)
        {
            slow.pop_back();
        }
        if slow.len() == SLOW {
            slow.pop_front();
        }
        slow.push_back(seen);
    }
}

impl Ring {
    #[cold]
    fn new() -> Box<Self> {
        Box::new(Ring {
            count: AtomicU64::new(0),
            events: std::array::from_fn(|_| Event::default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_stay() {
        let recorder = Recorder::default();
        assert_eq!(recorder.events(), []);
        recorder.record(Kind::Fd, 7, 3);
        assert_eq!(recorder.events(), [(7, Kind::Fd, 3)]);
        for time in 0..1000 {
            recorder.record(Kind::Turn, time, u64::MAX);
        }
        let events = recorder.events();
        // The place of one may be being written.
        assert_eq!(events.len(), EVENTS - 1);
        assert_eq!(events.first(), Some(&(745, Kind::Turn, VALUE)));
        assert_eq!(events.last(), Some(&(999, Kind::Turn, VALUE)));
    }

    #[test]
    fn a_reader_never_sees_half_an_event() {
        let recorder = std::sync::Arc::new(Recorder::default());
        let writer = recorder.clone();
        let writing = std::thread::spawn(move || {
            for number in 0..200_000 {
                writer.record(Kind::Timers, number, number);
            }
        });
        while !writing.is_finished() {
            let events = recorder.events();
            assert!(events.iter().all(|(time, _, value)| time == value));
            assert!(events.windows(2).all(|two| two[0].0 < two[1].0));
        }
    }
}
