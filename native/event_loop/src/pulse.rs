//! A loop's pulse: when its current turn began, and how long earlier turns took. The loop's thread
//! writes it once per turn, and `py_watchdog` reads it. Neither waits for the other, and a loop that
//! sleeps is not woken for it.
//!
//! Only the loop's thread writes, and each number stands for itself, so Relaxed is enough. But a
//! reader that sees a turn must not combine it with the beginning of an older one
//! (`tests/loom_pulse.rs`).

use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Turns by duration: the first bucket counts those below 1 us, each further one goes up to twice
/// that, and the last counts all from 4 s on.
pub const BUCKETS: usize = 24;

/// The pulse of one loop.
#[derive(Debug)]
pub struct Pulse {
    /// When the current turn began (ns); 0 while the thread waits or does not run the loop.
    since: AtomicU64,
    /// How many turns have ended: the number of the current one. Release and Acquire, written after
    /// `since` and read before it: a reader may find a later beginning, never an earlier one.
    turns: AtomicU64,
    /// The longest turn (ns), and all turns together.
    longest: AtomicU64,
    total: AtomicU64,
    histogram: [AtomicU64; BUCKETS],
    /// Python's number for the thread that runs the loop.
    thread: AtomicU64,
}

/// A copy of the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// How many turns have ended.
    pub turns: u64,
    /// The longest of them (ns).
    pub longest: u64,
    /// All of them together (ns).
    pub total: u64,
    /// How many there were of each duration: [`BUCKETS`].
    pub histogram: Vec<u64>,
}

impl Pulse {
    /// The pulse of a loop that has not run yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            since: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            total: AtomicU64::new(0),
            histogram: std::array::from_fn(|_| AtomicU64::new(0)),
            thread: AtomicU64::new(0),
        }
    }

    /// Records Python's number of the thread that runs the loop from now on.
    pub fn runs_on(&self, thread: u64) {
        self.thread.store(thread, Relaxed);
    }

    /// The thread that ran it last; 0 for none.
    #[must_use]
    pub fn thread(&self) -> u64 {
        self.thread.load(Relaxed)
    }

    /// A turn begins. Returns `true` after a rest.
    #[inline]
    pub fn begins(&self, now: u64) -> bool {
        let since = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        since == 0
    }

    /// A turn has ended, and the next one begins at once. Returns `true` after a rest.
    #[inline]
    pub fn turned(&self, now: u64) -> bool {
        let since = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        if since == 0 {
            return true;
        }
        let took = now.saturating_sub(since);
        // There is one writer, so atomic additions are not necessary.
        let bucket = &self.histogram[bucket(took)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        self.turns.store(self.turns.load(Relaxed) + 1, Release);
        self.total.store(self.total.load(Relaxed) + took, Relaxed);
        if took > self.longest.load(Relaxed) {
            self.longest.store(took, Relaxed);
        }
        false
    }

    /// The thread waits, or leaves the loop.
    #[inline]
    pub fn rests(&self) {
        self.since.store(0, Relaxed);
    }

    /// When the current turn began (ns); 0 while the loop rests.
    #[must_use]
    pub fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    /// Whether a turn runs.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// The number of the current turn, and how long it has lasted; `None` while the loop rests.
    #[must_use]
    pub fn awake_for(&self, now: u64) -> Option<(u64, u64)> {
        let turn = self.turns.load(Acquire);
        match self.since.load(Relaxed) {
            0 => None,
            since => Some((turn, now.saturating_sub(since))),
        }
    }

    /// What was recorded so far.
    #[must_use]
    pub fn read(&self) -> Reading {
        Reading {
            turns: self.turns.load(Relaxed),
            longest: self.longest.load(Relaxed),
            total: self.total.load(Relaxed),
            histogram: self
                .histogram
                .iter()
                .map(|count| count.load(Relaxed))
                .collect(),
        }
    }
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn bucket(nanoseconds: u64) -> usize {
    // A microsecond is taken as 1024 ns.
    let significant = 64 - (nanoseconds >> 10).leading_zeros() as usize;
    significant.min(BUCKETS - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn turns_are_counted_by_duration() {
        let pulse = Pulse::new();
        assert_eq!(pulse.awake_for(5), None);
        assert!(pulse.begins(1), "after a rest");
        assert!(!pulse.turned(501));
        assert!(!pulse.turned(3_000_501));
        assert_eq!(pulse.awake_for(3_000_510), Some((2, 9)));
        pulse.rests();
        assert!(pulse.turned(9_000_000) && pulse.is_awake());
        let read = pulse.read();
        assert_eq!((read.turns, read.longest), (2, 3_000_000));
        assert_eq!(read.total, 3_000_500);
        assert_eq!((read.histogram[0], read.histogram[12]), (1, 1));
        assert_eq!(read.histogram.iter().sum::<u64>(), 2);
    }

    #[test]
    fn the_last_bucket_has_all_that_took_longer() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(1023), 0);
        assert_eq!(bucket(1024), 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
