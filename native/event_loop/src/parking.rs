//! Sleep and wake: the protocol by which a loop's thread (the *owner*) goes to sleep and all other
//! threads wake it. The native library parks and wakes through `event_loop`; loom runs this very
//! file (`tests/loom_parking.rs`).
//!
//! # Invariant
//!
//! **A thread with work for the owner makes it visible first, then calls `wake`. The owner first
//! announces that it will sleep, then checks (or has the BEAM check) for the last time.** Both
//! steps change one word, always by read-modify-write, so they have one order:
//!
//! - `wake` comes before the announcement: the owner finds NOTIFIED and does not sleep, and because
//!   it has read that, it sees everything that the waker did before.
//! - `wake` comes after it: the waker finds POLLING or PARKED and rings the bell or wakes the
//!   futex.
//!
//! | from | to | by | and then |
//! |---|---|---|---|
//! | any | NOTIFIED | `wake`, any thread | was POLLING: ring the eventfd. Was PARKED: wake the futex. Was RESTING: wake the runner |
//! | NOTIFIED | AWAKE | owner | checks inbox, timers and the epoll set again |
//! | AWAKE | POLLING | owner | epoll wait: events end it, too |
//! | AWAKE | PARKED | owner | futex wait: the BEAM watches the epoll fd, or there is none |
//! | AWAKE | RESTING | owner | leaves its thread: its runner runs it when it is woken ([`WakeRunner`]) |
//! | POLLING, PARKED, RESTING | AWAKE | owner | timeout or events |
//!
//! *Arming*: the BEAM reports the epoll fd once per request. `armed` says that a request is
//! pending. It is cleared **before** the wake that reports the event (`disarmed`), and read
//! **after** the announcement: so an owner that finds it set will be woken when it is cleared. The
//! BEAM's watch is level-triggered: events older than the request trigger it at once.

use crate::clock::now_ns;
use crate::sync::{AtomicBool, Ordering};
use crate::sys::{Bell, Futex, Waited};
use std::fmt::Debug;
use std::sync::Arc;

/// The eventfd's token in the epoll set. No watch has it, because descriptors are not negative.
pub const WAKE_TOKEN: u64 = u64::MAX;
/// The timerfd's token in the epoll set.
pub const TIMER_TOKEN: u64 = u64::MAX - 1;

const AWAKE: u32 = 0;
const NOTIFIED: u32 = 1;
const POLLING: u32 = 2;
const PARKED: u32 = 3;
const RESTING: u32 = 4;

/// What runs loops that have no thread to themselves.
pub trait WakeRunner: Debug + Send + Sync {
    /// A resting loop was woken. Called once per rest, by the thread that wakes, which may be any
    /// thread: it must not block.
    fn wake_runner(&self);
}

/// How a park ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// A thread called [`wake`](Parking::wake): check everything again.
    Woken,
    /// The timeout passed. The request to the BEAM is still pending.
    TimedOut,
    /// Nothing can watch the epoll fd: wait on it directly.
    NotArmed,
}

/// The word that the owner sleeps on, and whether the BEAM was asked to watch.
///
/// `wake`, `disarmed`, `forget_arming` and the queries work on any thread; the rest belongs to the
/// owner, which is one thread at a time.
#[derive(Debug)]
pub struct Parking {
    /// All changes are read-modify-writes with `AcqRel`: see the invariant.
    state: Futex,
    bell: Bell,
    /// Also changed by read-modify-write, so that requesting and reporting have one order.
    armed: AtomicBool,
    /// Called by a wake while the owner rests. Never changes.
    runner: Option<Arc<dyn WakeRunner>>,
}

impl Parking {
    /// An owner that is awake.
    #[must_use]
    pub fn new() -> Self {
        Self::begin(None)
    }

    /// An owner that is awake, and may [`rest`](Self::rest).
    #[must_use]
    pub fn with_runner(runner: Arc<dyn WakeRunner>) -> Self {
        Self::begin(Some(runner))
    }

    fn begin(runner: Option<Arc<dyn WakeRunner>>) -> Self {
        Self {
            state: Futex::new(AWAKE),
            bell: Bell::new(),
            armed: AtomicBool::new(false),
            runner,
        }
    }

    /// What ends an epoll wait; it is in the set under [`WAKE_TOKEN`].
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Makes the owner check everything again. From any thread; makes a system call only if the
    /// owner sleeps.
    pub fn wake(&self) {
        match self.state.word().swap(NOTIFIED, Ordering::AcqRel) {
            POLLING => self.bell.ring(),
            PARKED => self.state.wake(),
            RESTING => {
                if let Some(runner) = &self.runner {
                    runner.wake_runner();
                }
            }
            _ => {} // awake: it reads the word before it sleeps
        }
    }

    /// Whether a wake is pending. A plain load, for spinning.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.state.word().load(Ordering::Acquire) == NOTIFIED
    }

    /// Whether the owner's thread sleeps, or is about to: a hint, because it may have woken by now.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        // Relaxed: the caller only uses it to choose how to call `wake`.
        matches!(self.state.word().load(Ordering::Relaxed), POLLING | PARKED)
    }

    /// Takes a pending wake, if there is one.
    pub fn take_notified(&self) -> bool {
        self.change(NOTIFIED, AWAKE)
    }

    /// Announces an epoll wait. Returns `false` if there was a wake, which is taken; do not sleep
    /// then.
    pub fn begin_polling(&self) -> bool {
        self.announce(POLLING)
    }

    /// Ends the epoll wait. Returns whether there was a wake, and takes it.
    pub fn end_polling(&self) -> bool {
        self.become_awake()
    }

    /// Begins to rest: the next wake wakes the runner, which must exist. Returns `false` if there
    /// was a wake, which is taken; check everything again then.
    pub fn rest(&self) -> bool {
        debug_assert!(self.runner.is_some(), "there is no runner to wake");
        self.announce(RESTING)
    }

    /// The runner ends the rest for another reason (an fd, a timer) than a wake. Returns `false`
    /// if a wake was first, and has called it.
    pub fn rise(&self) -> bool {
        self.change(RESTING, AWAKE)
    }

    /// Sleeps until woken, at most `timeout` nanoseconds. Unless a request is pending, `arm` asks
    /// the BEAM to watch the epoll fd; it returns whether there is a process to do that.
    pub fn park(&self, arm: impl FnOnce() -> bool, timeout: Option<u64>) -> Parked {
        let deadline = timeout.map(|ns| now_ns().saturating_add(ns));
        if !self.announce(PARKED) {
            return Parked::Woken;
        }
        // Set before asking: the report may come before `arm` returns, and must not be undone.
        if !self.armed.swap(true, Ordering::AcqRel) && !arm() {
            self.armed.swap(false, Ordering::AcqRel);
            // A wake that came meanwhile stays in the word for the caller's next step.
            self.change(PARKED, AWAKE);
            return Parked::NotArmed;
        }
        loop {
            // Returns at once if the word has changed since the announcement.
            let waited = self.state.wait(PARKED, deadline);
            if self.take_notified() {
                return Parked::Woken;
            }
            if waited == Waited::TimedOut {
                // Takes a wake that came just after the timeout.
                return if self.become_awake() {
                    Parked::Woken
                } else {
                    Parked::TimedOut
                };
            }
        }
    }

    /// Sleeps until woken, at most `timeout` nanoseconds, for an owner that has no epoll set: then
    /// only wakes can bring it work. May return without reason. Returns `true` if there was a wake,
    /// which is taken.
    pub fn sleep(&self, timeout: Option<u64>) -> bool {
        let deadline = timeout.map(|ns| now_ns().saturating_add(ns));
        if !self.announce(PARKED) {
            return true;
        }
        self.state.wait(PARKED, deadline);
        self.become_awake()
    }

    /// The BEAM reported the epoll fd: the request is fulfilled. From any thread.
    pub fn disarmed(&self) {
        // This order is the invariant: an owner that this wakes (or keeps awake) requests again.
        self.armed.swap(false, Ordering::AcqRel);
        self.wake();
    }

    /// The process that was asked is gone or replaced: the owner asks again. From any thread.
    pub fn forget_arming(&self) {
        self.disarmed();
    }

    /// For a caller that can arm by itself at once: returns `true` if no request was pending, and
    /// from now on one is. From any thread.
    #[must_use]
    pub fn try_arm(&self) -> bool {
        !self.armed.swap(true, Ordering::AcqRel)
    }

    /// Whether a request to the BEAM is pending.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Changes AWAKE to a sleeping state. Wakers only write NOTIFIED, so that is the state if the
    /// change fails; it is taken.
    fn announce(&self, sleep: u32) -> bool {
        let announced = self.change(AWAKE, sleep);
        if !announced {
            self.take_notified();
        }
        announced
    }

    /// Changes any state to AWAKE; `true` if that took a wake.
    fn become_awake(&self) -> bool {
        self.state.word().swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    fn change(&self, from: u32, to: u32) -> bool {
        let word = self.state.word();
        word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Default for Parking {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_wake_before_sleeping_is_not_lost() {
        let parking = Parking::new();
        parking.wake();
        assert!(parking.is_notified());
        assert!(!parking.begin_polling());
        assert!(!parking.is_asleep());
        assert!(parking.begin_polling() && parking.is_asleep() && !parking.end_polling());
        parking.wake();
        assert_eq!(
            parking.park(|| unreachable!("not to sleep"), None),
            Parked::Woken
        );
        parking.wake();
        assert!(parking.take_notified() && !parking.take_notified());
    }

    #[test]
    fn a_request_to_arm_is_pending_until_reported() {
        let parking = Parking::new();
        assert_eq!(parking.park(|| true, Some(1_000)), Parked::TimedOut);
        assert!(parking.is_armed());
        assert_eq!(
            parking.park(|| unreachable!("asked already"), Some(1)),
            Parked::TimedOut
        );
        parking.disarmed();
        assert!(!parking.is_armed() && parking.take_notified());
    }

    #[test]
    fn without_a_watcher_it_does_not_sleep_and_keeps_the_wake() {
        let parking = Parking::new();
        let nobody = || {
            parking.wake();
            false
        };
        assert_eq!(parking.park(nobody, None), Parked::NotArmed);
        assert!(!parking.is_armed());
        assert!(!parking.begin_polling());
    }

    #[test]
    fn a_sleep_without_a_set_ends_by_a_wake_or_a_timeout() {
        let parking = Parking::new();
        std::thread::scope(|scope| {
            scope.spawn(|| parking.wake());
            // It may return without reason.
            while !parking.sleep(None) {}
        });
        parking.wake();
        assert!(parking.sleep(None), "the wake comes first");
        let before = Instant::now();
        while before.elapsed() < Duration::from_millis(3) {
            assert!(!parking.sleep(Some(3_000_000)));
        }
        assert!(!parking.is_armed());
    }

    #[derive(Debug, Default)]
    struct Calls(std::sync::atomic::AtomicUsize);

    impl WakeRunner for Calls {
        fn wake_runner(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_runner_is_woken_once_for_each_rest() {
        let calls = Arc::new(Calls::default());
        let count = || calls.0.load(Ordering::Relaxed);
        let parking = Parking::with_runner(calls.clone());
        assert!(parking.rest());
        parking.wake();
        parking.wake();
        assert_eq!(count(), 1);
        assert!(!parking.rest(), "the wake comes first");
        assert!(parking.rest());
        assert!(parking.rise() && !parking.rise());
        parking.wake();
        assert_eq!(count(), 1, "it was up");
        assert!(!parking.rest() && parking.rest());
        parking.wake();
        assert!(!parking.rise(), "called instead");
        assert_eq!(count(), 2);
    }

    #[test]
    fn a_sleeper_is_woken_and_a_timeout_is_never_early() {
        let parking = Parking::new();
        std::thread::scope(|scope| {
            scope.spawn(|| parking.wake());
            assert_eq!(parking.park(|| true, None), Parked::Woken);
        });
        let before = Instant::now();
        assert_eq!(parking.park(|| true, Some(3_000_000)), Parked::TimedOut);
        assert!(before.elapsed() >= Duration::from_millis(3));
    }
}
