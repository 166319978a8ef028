//! A value that some threads change and others wait for: asleep, or by checking now and then for a
//! change (`tests/loom_awaited.rs`).

use std::sync::PoisonError;
use std::time::Instant;

use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering::Relaxed};

/// A value behind a lock.
#[derive(Debug, Default)]
pub struct Awaited<T> {
    value: Mutex<T>,
    /// Counts changes. Relaxed: a thread that sees it changed takes the lock before it reads the
    /// value.
    changes: AtomicU32,
    /// Threads that sleep. Relaxed: written under the lock, and read after a change that was made
    /// under it. Either they were counted before, or they have seen that change.
    sleepers: AtomicU32,
    bell: Condvar,
}

impl<T> Awaited<T> {
    /// A value that no thread waits for yet.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changes: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            bell: Condvar::new(),
        }
    }

    /// Locks the value, to read or change it. A change must leave it consistent at every moment:
    /// the lock ignores panics of other threads.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a change; call it without the lock. Makes a system call only if a thread sleeps.
    pub fn announce(&self) {
        self.changes.fetch_add(1, Relaxed);
        if self.sleepers.load(Relaxed) > 0 {
            self.bell.notify_all();
        }
    }

    /// How many changes were announced: for a thread that checks without the lock, because the
    /// threads that change the value need the lock.
    #[must_use]
    pub fn changes(&self) -> u32 {
        self.changes.load(Relaxed)
    }

    /// Sleeps until the value is `wanted`; returns `false` if it is not by `until`.
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
    fn a_value_that_is_there_needs_no_waiting() {
        let awaited = Awaited::new(7);
        assert!(awaited.sleep(None, |value| *value == 7));
    }

    #[test]
    fn waiting_ends_at_the_deadline() {
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
    fn a_panic_does_not_affect_other_threads() {
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
