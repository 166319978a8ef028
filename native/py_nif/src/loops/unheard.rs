//! Tasks that wait for something, while nobody listens for the death of their callers.
//!
//! To listen is two signals and four pieces of the VM's memory, a third of what a short coroutine takes,
//! and nearly all are answered before it matters. So the loop keeps their numbers, and has their callers
//! listened for when it goes to sleep, or when it has been at it for [`LISTEN_AFTER_NS`]. A caller that
//! lives has mostly seen to that itself by then (`py:call` does after 2 ms).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// For so long a loop that is never asleep runs tasks for callers that died at once; one that waits for
/// a timer that is near may take as long as that wait, too.
const LISTEN_AFTER_NS: u64 = 5_000_000;

#[derive(Default)]
pub struct Unheard {
    tasks: Mutex<Vec<u64>>,
    /// When the first of them came; 0 if there is none. Written by the loop's thread alone. Relaxed.
    since: AtomicU64,
}

impl Unheard {
    /// Called by the loop's thread. `now` is asked only if it is the first.
    pub fn add(&self, task: u64, now: impl FnOnce() -> u64) {
        self.tasks().push(task);
        if self.since.load(Ordering::Relaxed) == 0 {
            self.since.store(now(), Ordering::Relaxed);
        }
    }

    /// Whether they have been here for long.
    pub fn is_due(&self, now: u64) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && now.saturating_sub(since) >= LISTEN_AFTER_NS
    }

    /// Answers all, once.
    pub fn take(&self) -> Vec<u64> {
        if self.since.swap(0, Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        std::mem::take(&mut self.tasks())
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<u64>> {
        // Single pushes: whole also after a panic.
        self.tasks
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
