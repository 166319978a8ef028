//! When somebody who looks after many must look, and when it may sleep: `py_watchdog` looks after
//! loops, and an idle node must not be woken for it. Loom runs this very file
//! (`tests/loom_vigil.rs`).
//!
//! Whoever gets up while the watcher sleeps sets an alarm: a timer that wakes it when that can have
//! lasted too long. Whoever lies down again in time, and was the only one up since, clears it, and
//! nobody was woken.
//!
//! # Invariant
//!
//! **Whoever gets up makes that visible first, then asks whether the watcher sleeps. The watcher
//! says that it sleeps first, then looks for the last time.** A fence on both sides puts the two
//! steps of one before or after those of the other, so at least one of them sees the other.
//!
//! | from | to | by | and then |
//! |---|---|---|---|
//! | any | ASLEEP | the watcher found nobody up | it looks for the last time |
//! | any | LOOKING | the watcher found somebody up, or is gone | it looks again in a while |
//! | ASLEEP | SET(x) | x gets up | the alarm is set |
//! | ASLEEP | LOOKING | one gets up, and there is no alarm to set | it calls the watcher |
//! | SET(x) | SHARED | another gets up | the alarm stays set, until the watcher looks |
//! | SET(x) | ASLEEP | x lies down | the alarm is clear |
//!
//! All of them are made under one lock, together with the alarm, so that the last who set or
//! cleared it is also the last who said so. In LOOKING, SHARED and one's own SET there is nothing to
//! do for one who gets up, and that is known without the lock.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence};

const LOOKING: u64 = 0;
const ASLEEP: u64 = 1;
const SHARED: u64 = 2;

/// SET: numbers of those who get up begin with 1.
const fn set_by(who: u64) -> u64 {
    who.wrapping_add(SHARED)
}

/// What wakes the watcher in time.
pub trait Alarm {
    /// It goes off when one who gets up now can have been up for too long. `false`: there is none.
    fn set(&self) -> bool;
    /// It does not go off any more.
    fn clear(&self);
}

/// One watcher, and all whom it looks after.
#[derive(Debug)]
pub struct Vigil {
    /// Changed under the lock only.
    state: AtomicU64,
    lock: Mutex<()>,
}

impl Vigil {
    /// The watcher looks.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: AtomicU64::new(LOOKING),
            lock: Mutex::new(()),
        }
    }

    /// The watcher looks. (Loom's atomics are not made before the program runs.)
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: AtomicU64::new(LOOKING),
            lock: Mutex::new(()),
        }
    }

    /// Whether `who` has something to do: to be asked after having got up. [`Vigil::rouse`].
    #[inline]
    #[must_use]
    pub fn is_roused_by(&self, who: u64) -> bool {
        // With the one in `may_sleep`: either it is seen that we are up, or that it sleeps.
        fence(Ordering::SeqCst);
        // Relaxed: what it guards are numbers that stand for themselves.
        let state = self.state.load(Ordering::Relaxed);
        state != LOOKING && state != SHARED && state != set_by(who)
    }

    /// `who` has got up while the watcher sleeps. `true`: for want of an alarm, call it.
    #[cold]
    #[must_use]
    pub fn rouse(&self, who: u64, alarm: &impl Alarm) -> bool {
        let _held = self.lock();
        let state = self.state.load(Ordering::Relaxed);
        if state == ASLEEP {
            // First the alarm: who finds it set relies on it.
            let is_set = alarm.set();
            self.change(if is_set { set_by(who) } else { LOOKING });
            return !is_set;
        }
        if state != LOOKING && state != set_by(who) {
            self.change(SHARED);
        }
        false
    }

    /// `who` has lain down, and not for a moment.
    #[inline]
    pub fn lies_down(&self, who: u64, alarm: &impl Alarm) {
        // Relaxed: only `who` itself says so.
        if self.state.load(Ordering::Relaxed) == set_by(who) {
            self.withdraw(who, alarm);
        }
    }

    #[cold]
    fn withdraw(&self, who: u64, alarm: &impl Alarm) {
        let _held = self.lock();
        if self.state.load(Ordering::Relaxed) == set_by(who) {
            self.change(ASLEEP);
            alarm.clear();
        }
    }

    /// To be asked by the watcher after each look. `true`: it need not look again before the alarm
    /// goes off, or it is called. `false`: it looks again in a while. `any_up` looks whether anybody
    /// is up.
    pub fn may_sleep(&self, any_up: impl Fn() -> bool, alarm: &impl Alarm) -> bool {
        if any_up() {
            self.looks(alarm);
            return false;
        }
        {
            let _held = self.lock();
            self.change(ASLEEP);
            alarm.clear();
        }
        fence(Ordering::SeqCst);
        if any_up() {
            // Who is up in this last look may have found us still looking. That others have set the
            // alarm is not enough for it: they may clear it.
            self.looks(alarm);
            return false;
        }
        true
    }

    /// The watcher looks again in a while, or a successor of it will: nobody needs to do anything.
    pub fn looks(&self, alarm: &impl Alarm) {
        let _held = self.lock();
        self.change(LOOKING);
        alarm.clear();
    }

    fn change(&self, to: u64) {
        // Release: the alarm was set before.
        self.state.store(to, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // It guards an order, and the state is one word: whole also after a panic.
        self.lock
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
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
    use std::cell::Cell;

    /// Whether it is set, and how often that was done; or none.
    #[derive(Default)]
    struct Timer {
        is_missing: bool,
        is_set: Cell<bool>,
        changes: Cell<u32>,
    }

    impl Alarm for Timer {
        fn set(&self) -> bool {
            self.changes.set(self.changes.get() + 1);
            self.is_set.set(!self.is_missing);
            !self.is_missing
        }
        fn clear(&self) {
            self.changes.set(self.changes.get() + 1);
            self.is_set.set(false);
        }
    }

    /// As a loop does it. `true`: the watcher is called.
    fn get_up(vigil: &Vigil, who: u64, timer: &Timer) -> bool {
        vigil.is_roused_by(who) && vigil.rouse(who, timer)
    }

    #[test]
    fn the_only_one_up_sets_the_alarm_and_clears_it() {
        let (vigil, timer) = (Vigil::new(), Timer::default());
        assert!(!vigil.is_roused_by(1), "it looks");
        assert!(vigil.may_sleep(|| false, &timer));
        for _ in 0..3 {
            assert!(!get_up(&vigil, 1, &timer) && timer.is_set.get());
            let changes = timer.changes.get();
            // A short rest.
            assert!(!get_up(&vigil, 1, &timer));
            vigil.lies_down(2, &timer);
            assert!(timer.is_set.get() && timer.changes.get() == changes);
            vigil.lies_down(1, &timer);
            assert!(!timer.is_set.get());
        }
    }

    #[test]
    fn an_alarm_for_two_stays_until_the_watcher_looks() {
        let (vigil, timer) = (Vigil::new(), Timer::default());
        assert!(vigil.may_sleep(|| false, &timer));
        assert!(!get_up(&vigil, 1, &timer) && !get_up(&vigil, 2, &timer));
        vigil.lies_down(1, &timer);
        vigil.lies_down(2, &timer);
        assert!(timer.is_set.get());
        assert!(!vigil.may_sleep(|| true, &timer) && !timer.is_set.get());
        assert!(!vigil.is_roused_by(1), "it looks");
        assert!(vigil.may_sleep(|| false, &timer));
        assert!(!get_up(&vigil, 2, &timer) && timer.is_set.get());
    }

    #[test]
    fn without_an_alarm_it_is_called_once() {
        let vigil = Vigil::new();
        let timer = Timer {
            is_missing: true,
            ..Timer::default()
        };
        assert!(vigil.may_sleep(|| false, &timer));
        assert!(get_up(&vigil, 1, &timer));
        assert!(!get_up(&vigil, 1, &timer) && !get_up(&vigil, 2, &timer));
        assert!(!vigil.may_sleep(|| true, &timer));
    }

    #[test]
    fn one_who_gets_up_during_the_last_look_is_seen() {
        let (vigil, timer) = (Vigil::new(), Timer::default());
        let looks = Cell::new(0);
        let up_at_the_second = || looks.replace(looks.get() + 1) > 0;
        assert!(!vigil.may_sleep(up_at_the_second, &timer));
        assert!(!vigil.is_roused_by(1), "it looks");
    }

    #[test]
    fn a_watcher_that_is_gone_leaves_no_alarm() {
        let (vigil, timer) = (Vigil::new(), Timer::default());
        assert!(vigil.may_sleep(|| false, &timer));
        assert!(!get_up(&vigil, 1, &timer) && timer.is_set.get());
        vigil.looks(&timer);
        assert!(!timer.is_set.get() && !vigil.is_roused_by(1) && !vigil.is_roused_by(2));
        assert!(vigil.may_sleep(|| false, &timer) && vigil.is_roused_by(1));
    }
}
