//! A loop's pulse: since when its thread has been running callbacks, and how long that took
//! before. The loop's thread writes it once a turn, `py_watchdog` reads it, and nobody waits for
//! anybody: a loop that is asleep is not woken to find out that it is well.
//!
//! All loads and stores are Relaxed: each number is for itself, and only the loop's thread writes
//! (but for `interrupted`, which is for whoever interrupts).
//!
//! While all loops rest, `py_watchdog` sleeps too. The first that does not calls it
//! (`watchdog.rs`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::watchdog;

/// Turns by duration: the first bucket is below 1 us, each next one twice as long, the last has
/// all from 4 s on.
pub const BUCKETS: usize = 24;

#[derive(Default)]
pub struct Pulse {
    /// When the turn that runs now began (ns); 0 while the thread waits or does not run the loop.
    since: AtomicU64,
    /// How many turns have ended; tells one long turn from another.
    turns: AtomicU64,
    /// The longest turn (ns).
    longest: AtomicU64,
    histogram: [AtomicU64; BUCKETS],
    /// Python's number for the thread that runs the loop.
    thread: AtomicU64,
    /// One more than the last turn that was interrupted.
    interrupted: AtomicU64,
}

/// What was read.
pub struct Reading {
    pub turns: u64,
    pub longest: u64,
    pub histogram: Vec<u64>,
}

fn add_one(counter: &AtomicU64) {
    // One writer: no need for a locked instruction.
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl Pulse {
    pub fn runs_on(&self, thread: u64) {
        self.thread.store(thread, Relaxed);
    }

    pub fn thread(&self) -> u64 {
        self.thread.load(Relaxed)
    }

    /// The thread has callbacks to run, or looks whether it has.
    #[inline]
    pub fn begins(&self, now: u64) {
        let since = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        if since == 0 {
            watchdog::loop_got_up();
        }
    }

    /// All of the turn's callbacks have run; the next turn begins at once.
    #[inline]
    pub fn turned(&self, now: u64) {
        let since = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        if since == 0 {
            return watchdog::loop_got_up();
        }
        let took = now.saturating_sub(since);
        add_one(&self.turns);
        add_one(&self.histogram[bucket(took)]);
        if took > self.longest.load(Relaxed) {
            self.longest.store(took, Relaxed);
        }
    }

    /// The thread waits, or leaves the loop.
    #[inline]
    pub fn rests(&self) {
        self.since.store(0, Relaxed);
    }

    pub fn is_awake(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// The turn that runs, and how long it has: `None` while the loop rests.
    pub fn awake_for(&self, now: u64) -> Option<(u64, u64)> {
        let turn = self.turns.load(Relaxed);
        match self.since.load(Relaxed) {
            0 => None,
            since => Some((turn, now.saturating_sub(since))),
        }
    }

    /// Whether `turn` runs still and is to be interrupted by the caller: once, for the exception
    /// may be on its way out when the next one would come.
    pub fn is_to_be_interrupted(&self, turn: u64, now: u64) -> bool {
        let runs = self.awake_for(now).is_some_and(|(this, _)| this == turn);
        runs && self.interrupted.swap(turn.wrapping_add(1), Relaxed) != turn.wrapping_add(1)
    }

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

#[inline]
fn bucket(nanoseconds: u64) -> usize {
    // 1024 ns stand for a microsecond.
    let significant = 64 - (nanoseconds >> 10).leading_zeros() as usize;
    significant.min(BUCKETS - 1)
}
