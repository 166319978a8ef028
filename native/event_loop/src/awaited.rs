//! A value that some threads change and others wait for: asleep, or looking now and then whether they
//! were told of a change (`tests/loom_awaited.rs`).

use std::sync::PoisonError;
use std::time::Instant;

use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering::Relaxed};

/// The value, behind its lock.
#[derive(Debug, Default)]
pub struct Awaited<T> {
    value: Mutex<T>,
    /// Relaxed: whoever sees it changed takes the lock before the value is looked at.
    told: AtomicU32,
    /// Threads that sleep. Relaxed: written under the lock, and read after a change that was made
    /// under it. Either they were counted before, or they have seen that change.
    sleepers: AtomicU32,
    bell: Condvar,
}

impl<T> Awaited<T> {
    /// Nobody waits for it yet.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            told: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            bell: Condvar::new(),
        }
    }

    /// To look at it or to change it. A change must leave it whole at every moment: a panic
    /// meanwhile is nobody else's business.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was changed, and the lock is free again. Asks the kernel only if somebody sleeps.
    pub fn tell(&self) {
        self.told.fetch_add(1, Relaxed);
        if self.sleepers.load(Relaxed) > 0 {
            self.bell.notify_all();
        }
    }

    /// How often it was told of: for a thread that looks without the lock, which those need who
    /// change the value.
    #[must_use]
    pub fn told(&self) -> u32 {
        self.told.load(Relaxed)
    }

    /// Sleeps until it is `wanted`, or until then: `false`.
    pub fn sleep(&self, until: Option<Instant>, wanted: impl Fn(&T) -> bool) -> bool {
        let mut value = self.lock();
        self.sleepers.fetch_add(1, Relaxed);
        let met = loop {
            if wanted(&value) {
                break true;
            }
            let left = until.map(|until| until.checked_duration_since(Instant::now()));
            value = match left {
                None => (self.bell.wait(value)).unwrap_or_else(PoisonError::into_inner),
                Some(None) => break false,
                Some(Some(left)) => {
                    let waited = self.bell.wait_timeout(value, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        self.sleepers.fetch_sub(1, Relaxed);
        met
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_there_is_not_waited_for() {
        let awaited = Awaited::new(7);
        assert!(awaited.sleep(None, |value| *value == 7));
    }

    #[test]
    fn what_does_not_come_is_waited_for_until_then() {
        let awaited = Awaited::new(7);
        let until = Instant::now() + Duration::from_millis(2);
        assert!(!awaited.sleep(Some(until), |value| *value == 8));
        assert!(Instant::now() >= until);
        assert!(
            !awaited.sleep(Some(until), |value| *value == 8),
            "it is over"
        );
    }

    #[test]
    fn a_panic_of_one_is_nobody_elses_business() {
        let awaited = std::sync::Arc::new(Awaited::new(7));
        let panics = awaited.clone();
        let panicked = std::thread::spawn(move || {
            let _value = panics.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*awaited.lock(), 7);
        assert!(awaited.sleep(None, |value| *value == 7));
    }
}
