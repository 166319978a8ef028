//! What the watchdog knows of a loop: its turns, which the loop's thread records, and its
//! callbacks. The first turn after a rest wakes `py_watchdog` if that sleeps.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::watchdog;
use crate::cpython::interrupt::Interruptible;

#[derive(Default)]
pub struct Pulse {
    pulse: event_loop::Pulse,
    /// The callbacks of the loop, as calls that the watchdog can interrupt.
    pub callbacks: Arc<Interruptible>,
    /// The callback that the last check found, and when it was found first (ns). Relaxed: only
    /// `py_watchdog` uses this.
    seen: (AtomicU64, AtomicU64),
}

impl Pulse {
    /// The number of the callback that runs, and for how long checks have found it (ns). It has
    /// run for longer.
    pub fn look(&self, now: u64) -> (u64, u64) {
        let number = self.callbacks.running();
        if number == 0 || self.seen.0.swap(number, Ordering::Relaxed) != number {
            self.seen.1.store(now, Ordering::Relaxed);
        }
        let since = self.seen.1.load(Ordering::Relaxed);
        (number, now.saturating_sub(since))
    }

    #[inline]
    pub fn begins(&self, now: u64) {
        if self.pulse.begins(now) {
            watchdog::loop_awake();
        }
    }

    #[inline]
    pub fn turned(&self, now: u64) {
        if self.pulse.turned(now) {
            watchdog::loop_awake();
        }
    }

    #[inline]
    pub fn rests(&self) {
        self.pulse.rests();
    }
}

impl Deref for Pulse {
    type Target = event_loop::Pulse;

    fn deref(&self) -> &event_loop::Pulse {
        &self.pulse
    }
}
