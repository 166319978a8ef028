//! What guards a [`GilCell`](super::gil_cell::GilCell) where Python has no GIL: a lock that knows
//! who has it, so that re-entry panics, as a `RefCell` does, instead of waiting for itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct ThreadLock<T> {
    /// The thread inside, or 0. Only compared with the own thread, so it need not be in step with
    /// the lock for anybody else.
    owner: AtomicUsize,
    value: Mutex<T>,
}

impl<T> ThreadLock<T> {
    pub const fn new(value: T) -> Self {
        ThreadLock {
            owner: AtomicUsize::new(0),
            value: Mutex::new(value),
        }
    }

    pub fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let me = this_thread();
        assert_ne!(
            self.owner.load(Ordering::Relaxed),
            me,
            "state of a Python object is changed while it is being changed"
        );
        // A panic in a closure becomes a Python exception, and the next one may look again, as
        // with a `RefCell`.
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(me, Ordering::Relaxed);
        let inside = Inside(&self.owner);
        let result = change(&mut value);
        drop(inside);
        result
    }

    /// Nothing if somebody is inside.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.value
            .try_lock()
            .ok()
            .map(|value: MutexGuard<'_, T>| look(&value))
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A number of this thread's own while it lives: the address of something only it has.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
}
