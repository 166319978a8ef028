//! The lock of a [`GilCell`](super::gil_cell::GilCell) in builds without a GIL. It records its
//! owner, so that re-entry panics, as with a `RefCell`, instead of deadlocking.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct ThreadLock<T> {
    /// The thread inside, or 0. Each thread only compares it with itself, so it need not be
    /// consistent with the lock for other threads.
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
        // A panic in a closure becomes a Python exception, and the value stays accessible, as with
        // a `RefCell`.
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(me, Ordering::Relaxed);
        let inside = Inside(&self.owner);
        let result = change(&mut value);
        drop(inside);
        result
    }

    /// Returns `None` if a thread is inside.
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

/// A number that no other thread has during this thread's life: the address of a thread-local.
fn this_thread() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
}
