//! Whether the watcher over all loops sleeps. `py_watchdog` checks loops while one of them is
//! awake; an idle node must not be woken for it. Loom runs this very file
//! (`tests/loom_watcher.rs`).
//!
//! # Invariant
//!
//! **A loop first makes visible that it is awake, and then reads whether the watcher sleeps. The
//! watcher first records that it sleeps, and then checks all loops a last time.** Between the two
//! steps of each is a fence, so at least one of them sees the other: the watcher goes on checking,
//! or the loop wakes it.

use crate::sync::{AtomicBool, Ordering, fence};

/// The state of one watcher.
#[derive(Debug)]
pub struct Watcher {
    sleeps: AtomicBool,
}

impl Watcher {
    /// A watcher that is awake.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            sleeps: AtomicBool::new(false),
        }
    }

    /// A watcher that is awake. (Loom's atomics cannot be created in a constant.)
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            sleeps: AtomicBool::new(false),
        }
    }

    /// Whether the watcher sleeps. A loop asks after it has made visible that it is awake.
    #[inline]
    #[must_use]
    pub fn sleeps(&self) -> bool {
        // Pairs with the fence in `may_sleep`.
        fence(Ordering::SeqCst);
        // Relaxed: the flag guards nothing; `claim_wake` reads it again.
        self.sleeps.load(Ordering::Relaxed)
    }

    /// As [`sleeps`](Self::sleeps), for a second watcher, right after the first was asked: its fence
    /// serves both.
    #[inline]
    #[must_use]
    pub fn sleeps_after_fence(&self) -> bool {
        // Relaxed: as in `sleeps`.
        self.sleeps.load(Ordering::Relaxed)
    }

    /// `true` for the one loop that has to wake the watcher.
    #[must_use]
    pub fn claim_wake(&self) -> bool {
        // Acquire: how the watcher is woken was written before it went to sleep.
        self.sleeps.swap(false, Ordering::Acquire)
    }

    /// For the watcher, after each check of the loops. `true`: it can sleep until it is woken.
    /// `false`: it has to check again later. It may be woken in both cases.
    pub fn may_sleep(&self, any_awake: impl Fn() -> bool) -> bool {
        if any_awake() {
            return false;
        }
        self.sleeps.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if any_awake() {
            // That loop may have read the flag before it was set.
            self.sleeps.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }
}

impl Default for Watcher {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn one_loop_wakes_a_watcher_that_sleeps() {
        let watcher = Watcher::new();
        assert!(!watcher.sleeps() && !watcher.claim_wake(), "it is awake");
        assert!(watcher.may_sleep(|| false) && watcher.sleeps());
        assert!(watcher.claim_wake(), "the first");
        assert!(!watcher.sleeps() && !watcher.claim_wake(), "the second");
    }

    #[test]
    fn it_stays_awake_while_a_loop_is_awake() {
        let watcher = Watcher::new();
        assert!(!watcher.may_sleep(|| true) && !watcher.sleeps());
        // The loop wakes between the two checks.
        let checks = Cell::new(0);
        assert!(!watcher.may_sleep(|| checks.replace(checks.get() + 1) > 0));
        assert!(!watcher.sleeps());
    }
}
