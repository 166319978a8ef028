//! What the watchdog and `py_inspect` know of a loop: its turns, which the loop's thread records,
//! and its callbacks. The first turn after a rest wakes `py_watchdog` if that sleeps.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::profiled::TaskName;
use super::{slow_turns, watchdog};
use crate::cpython::interrupt::Interruptible;
use crate::cpython::sampling::PythonThread;

/// What a loop had to do in its last turn, and how long it waited for the GIL. Relaxed: only the
/// loop's thread writes, and each number stands for itself.
#[derive(Default)]
pub struct Load {
    /// Callbacks that the turn runs, and timers that are left.
    ready: AtomicU64,
    timers: AtomicU64,
    /// All waits for the GIL after a sleep, and the longest one (ns).
    gil_waited: AtomicU64,
    gil_longest: AtomicU64,
}

/// A copy of the numbers.
pub struct LoadReading {
    pub ready: u64,
    pub timers: u64,
    pub gil_waited: u64,
    pub gil_longest: u64,
}

impl Load {
    #[inline]
    pub fn runs(&self, ready: usize) {
        self.ready.store(ready as u64, Ordering::Relaxed);
    }

    #[inline]
    pub fn keeps(&self, timers: usize) {
        self.timers.store(timers as u64, Ordering::Relaxed);
    }

    /// The thread has the GIL, which it has waited for.
    pub fn waited_for_gil(&self, nanoseconds: u64) {
        let total = self.gil_waited.load(Ordering::Relaxed) + nanoseconds;
        self.gil_waited.store(total, Ordering::Relaxed);
        if nanoseconds > self.gil_longest.load(Ordering::Relaxed) {
            self.gil_longest.store(nanoseconds, Ordering::Relaxed);
        }
    }

    pub fn read(&self) -> LoadReading {
        LoadReading {
            ready: self.ready.load(Ordering::Relaxed),
            timers: self.timers.load(Ordering::Relaxed),
            gil_waited: self.gil_waited.load(Ordering::Relaxed),
            gil_longest: self.gil_longest.load(Ordering::Relaxed),
        }
    }
}

#[derive(Default)]
pub struct Pulse {
    pulse: event_loop::Pulse,
    /// The callbacks of the loop, as calls that the watchdog can interrupt.
    pub callbacks: Arc<Interruptible>,
    pub load: Load,
    /// While a profile is taken.
    pub task: TaskName,
    /// The state of its thread in CPython: only ever read by the kernel, see `cpython::sampling`.
    state: AtomicUsize,
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

    /// The calling thread runs the loop from now on.
    pub fn runs_on(&self, thread: PythonThread) {
        self.pulse.runs_on(thread.number);
        self.state.store(thread.state, Ordering::Relaxed);
        slow_turns::start();
    }

    /// The thread that ran it last. It may have ended.
    pub fn python_thread(&self) -> PythonThread {
        PythonThread {
            number: self.pulse.thread(),
            state: self.state.load(Ordering::Relaxed),
        }
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
