//! When somebody who looks after many must look, and when it may sleep: `py_watchdog` looks after
//! loops, and an idle node must not be woken for it. Loom runs this very file
//! (`tests/loom_vigil.rs`).
//!
//! # Invariant
//!
//! **Whoever gets up makes that visible first, then asks whether the watcher sleeps. The watcher
//! says that it sleeps first, then looks for the last time.** A fence on both sides puts the two
//! steps of one before or after those of the other, so at least one of them sees the other.
//!
//! | from | to | by | and then |
//! |---|---|---|---|
//! | LOOKING | ASLEEP | the watcher found nobody up | it looks no more |
//! | ASLEEP | LOOKING | one that gets up | it calls the watcher |
//!
//! The watcher takes its time between two looks, so those who get up often do not call it often:
//! once after each look that found nobody up, at most.

use crate::sync::{fence, AtomicU32, Ordering};

const LOOKING: u32 = 0;
const ASLEEP: u32 = 1;

/// One watcher, and all whom it looks after.
#[derive(Debug)]
pub struct Vigil {
    state: AtomicU32,
}

impl Vigil {
    /// The watcher looks.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(LOOKING),
        }
    }

    /// The watcher looks. (Loom's atomics are not made before the program runs.)
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(LOOKING),
        }
    }

    /// To be asked after having got up, by whoever did. `true`: call the watcher.
    #[inline]
    pub fn got_up(&self) -> bool {
        // With the one in `may_sleep`: either it is seen that we are up, or that it sleeps.
        fence(Ordering::SeqCst);
        // Relaxed: what it guards are numbers that stand for themselves.
        self.state.load(Ordering::Relaxed) != LOOKING && self.rouse()
    }

    #[cold]
    fn rouse(&self) -> bool {
        self.state.swap(LOOKING, Ordering::AcqRel) == ASLEEP
    }

    /// To be asked by the watcher after each look. `true`: it need not look again before it is
    /// called. `false`: it looks again in a while. `any_up` looks whether anybody is up.
    pub fn may_sleep(&self, any_up: impl Fn() -> bool) -> bool {
        if any_up() {
            // A watcher whose place we have taken may have been asleep.
            self.state.swap(LOOKING, Ordering::AcqRel);
            return false;
        }
        self.state.swap(ASLEEP, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        // Who is up in this last look may also have found us asleep: then it calls.
        !any_up() || !self.change(ASLEEP, LOOKING)
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Default for Vigil {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_when_nobody_is_up_and_is_called_once() {
        let vigil = Vigil::new();
        assert!(!vigil.may_sleep(|| true));
        assert!(!vigil.got_up(), "it looks");
        assert!(vigil.may_sleep(|| false));
        assert!(vigil.got_up());
        assert!(!vigil.got_up());
        assert!(!vigil.may_sleep(|| true));
    }

    #[test]
    fn one_who_gets_up_during_the_last_look_is_seen() {
        let vigil = Vigil::new();
        let looks = std::cell::Cell::new(0);
        let up_at_the_second = || looks.replace(looks.get() + 1) > 0;
        assert!(!vigil.may_sleep(up_at_the_second));
        assert!(!vigil.got_up(), "it looks");
    }

    #[test]
    fn a_successor_may_sleep_too() {
        let vigil = Vigil::new();
        assert!(vigil.may_sleep(|| false));
        assert!(!vigil.may_sleep(|| true), "the one that slept is gone");
        assert!(!vigil.got_up());
        assert!(vigil.may_sleep(|| false) && vigil.may_sleep(|| false));
        assert!(vigil.got_up());
    }
}
