//! A loop's pulse: since when its thread has been running callbacks, and how long that took
//! before. The loop's thread writes it once a turn, `py_watchdog` reads it, and nobody waits for
//! anybody: a loop that is asleep is not woken to find out that it is well.
//!
//! Only the loop's thread writes, and each number is for itself, so Relaxed is enough; but who sees
//! that a turn has begun must not take the beginning of an older one for its own
//! (`tests/loom_pulse.rs`).

use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Turns by duration: the first bucket is below 1 us, each next one twice as long, the last has
/// all from 4 s on.
pub const BUCKETS: usize = 24;

/// The pulse of one loop.
#[derive(Debug)]
pub struct Pulse {
    /// When the turn that runs now began (ns); 0 while the thread waits or does not run the loop.
    since: AtomicU64,
    /// How many turns have ended; tells one long turn from another. Release and Acquire, written
    /// after `since` and read before it: a reader may find a later beginning, never an earlier one.
    turns: AtomicU64,
    /// The longest turn (ns).
    longest: AtomicU64,
    histogram: [AtomicU64; BUCKETS],
    /// Python's number for the thread that runs the loop.
    thread: AtomicU64,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// How many turns have ended.
    pub turns: u64,
    /// The longest of them (ns).
    pub longest: u64,
    /// How many there were of each duration: [`BUCKETS`].
    pub histogram: Vec<u64>,
}

impl Pulse {
    /// Of a loop that has not run yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            since: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            histogram: std::array::from_fn(|_| AtomicU64::new(0)),
            thread: AtomicU64::new(0),
        }
    }

    /// Python's number for the thread that runs the loop from now on.
    pub fn runs_on(&self, thread: u64) {
        self.thread.store(thread, Relaxed);
    }

    /// The thread that ran it last; 0 for none.
    #[must_use]
    pub fn thread(&self) -> u64 {
        self.thread.load(Relaxed)
    }

    /// The thread has callbacks to run, or looks whether it has. `true`: after a rest.
    #[inline]
    pub fn begins(&self, now: u64) -> bool {
        let since = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        since == 0
    }

    /// All of the turn's callbacks have run; the next turn begins at once. `true`: after a rest.
    #[inline]
    pub fn turned(&self, now: u64) -> bool {
        let since = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        if since == 0 {
            return true;
        }
        let took = now.saturating_sub(since);
        // One writer: no need for locked instructions.
        let bucket = &self.histogram[bucket(took)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        self.turns.store(self.turns.load(Relaxed) + 1, Release);
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

    /// Whether a turn runs.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// The turn that runs, and how long it has: `None` while the loop rests.
    #[must_use]
    pub fn awake_for(&self, now: u64) -> Option<(u64, u64)> {
        let turn = self.turns.load(Acquire);
        match self.since.load(Relaxed) {
            0 => None,
            since => Some((turn, now.saturating_sub(since))),
        }
    }

    /// What was noted so far.
    #[must_use]
    pub fn read(&self) -> Reading {
        Reading {
            turns: self.turns.load(Relaxed),
            longest: self.longest.load(Relaxed),
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
    // 1024 ns stand for a microsecond.
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
