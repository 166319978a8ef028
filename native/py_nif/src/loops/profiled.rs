//! The name of the task that a loop runs, for profiles. It costs something for each callback, so it
//! is kept only while a profile is taken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many profiles are being taken.
static PROFILES: AtomicUsize = AtomicUsize::new(0);
/// The number of the one that began last.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Relaxed: a callback more or less does not matter.
#[inline(always)]
pub fn is_wanted() -> bool {
    PROFILES.load(Ordering::Relaxed) != 0
}

/// Names are kept while this lives.
pub struct Wanted;

impl Wanted {
    pub fn begin() -> Self {
        LAST.fetch_add(1, Ordering::Relaxed);
        PROFILES.fetch_add(1, Ordering::Relaxed);
        Wanted
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        PROFILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The task that the callback belongs to which runs now, and which profile asked for its name.
#[derive(Default)]
pub struct TaskName(Mutex<(usize, Option<Arc<str>>)>);

impl TaskName {
    fn lock(&self) -> MutexGuard<'_, (usize, Option<Arc<str>>)> {
        // Only ever replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, name: Option<Arc<str>>) {
        *self.lock() = (LAST.load(Ordering::Relaxed), name);
    }

    /// `None` also if the loop has begun no callback since the last profile began.
    pub fn get(&self) -> Option<Arc<str>> {
        let known = self.lock();
        match known.0 == LAST.load(Ordering::Relaxed) {
            true => known.1.clone(),
            false => None,
        }
    }
}
