//! A loop's pulse, as its thread writes it. While all loops rest, `py_watchdog` sleeps too: the
//! first that does not sees to it that it wakes in time.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::watchdog;
use crate::cpython::interrupt::Interruptible;

pub struct Pulse {
    pulse: event_loop::Pulse,
    /// The loops that sleep as one, because they share a thread: by the number of one of them.
    /// Relaxed: written and read by that thread.
    party: AtomicU64,
    /// The callbacks of the loop, as calls that the watchdog can interrupt.
    pub callbacks: Arc<Interruptible>,
    /// The callback that the last look found, and when one found it first (ns). Relaxed: only
    /// `py_watchdog` looks.
    seen: (AtomicU64, AtomicU64),
}

impl Pulse {
    /// Of the loop of this number, which sleeps by itself.
    pub fn new(id: u64) -> Self {
        Pulse {
            pulse: event_loop::Pulse::new(),
            party: AtomicU64::new(id),
            callbacks: Arc::default(),
            seen: Default::default(),
        }
    }

    /// A look: the number of the callback that runs, and for how long looks have found it (ns).
    /// It has run for longer.
    pub fn look(&self, now: u64) -> (u64, u64) {
        let number = self.callbacks.running();
        if number == 0 || self.seen.0.swap(number, Ordering::Relaxed) != number {
            self.seen.1.store(now, Ordering::Relaxed);
        }
        let since = self.seen.1.load(Ordering::Relaxed);
        (number, now.saturating_sub(since))
    }

    /// When the loop of this number sleeps, this one does.
    pub fn sleeps_with(&self, id: u64) {
        self.party.store(id, Ordering::Relaxed);
    }

    fn party(&self) -> u64 {
        self.party.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn begins(&self, now: u64) {
        if self.pulse.begins(now) {
            watchdog::loop_got_up(self.party());
        }
    }

    #[inline]
    pub fn turned(&self, now: u64) {
        if self.pulse.turned(now) {
            watchdog::loop_got_up(self.party());
        }
    }

    #[inline]
    pub fn rests(&self) {
        self.pulse.rests();
    }

    /// The thread, which rests, is about to sleep: longer than it takes to say so.
    pub fn sleeps(&self) {
        watchdog::party_lies_down(self.party());
    }
}

impl Deref for Pulse {
    type Target = event_loop::Pulse;

    fn deref(&self) -> &event_loop::Pulse {
        &self.pulse
    }
}
