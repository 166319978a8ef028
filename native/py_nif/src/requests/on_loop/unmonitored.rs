//! Requests that wait for something, and whose callers are not monitored yet.
//!
//! Monitoring takes two signals and four allocations in the VM, a third of what a short coroutine
//! costs, and nearly all requests end before it matters. So the loop records their numbers, and
//! monitors their callers when it goes to sleep, or when it has run for [`MONITOR_AFTER_NS`]. By
//! then most living callers have requested it themselves (`py:call` does after 2 ms).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// For this long, a loop that never sleeps runs requests whose callers died at once; a loop that waits
/// for a near timer may take as long as that wait in addition.
const MONITOR_AFTER_NS: u64 = 5_000_000;

#[derive(Default)]
pub struct Unmonitored {
    requests: Mutex<Vec<u64>>,
    /// When the first of them was added; 0 if there is none. Only the loop's thread writes it:
    /// Relaxed.
    since: AtomicU64,
}

impl Unmonitored {
    /// Called by the loop's thread. `now` is called only for the first one.
    pub fn add(&self, request: u64, now: impl FnOnce() -> u64) {
        self.requests().push(request);
        if self.since.load(Ordering::Relaxed) == 0 {
            self.since.store(now(), Ordering::Relaxed);
        }
    }

    /// Whether the first of them was added long ago.
    pub fn is_due(&self, now: u64) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0 && now.saturating_sub(since) >= MONITOR_AFTER_NS
    }

    /// Returns and removes all.
    pub fn take(&self) -> Vec<u64> {
        if self.since.swap(0, Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        std::mem::take(&mut self.requests())
    }

    fn requests(&self) -> MutexGuard<'_, Vec<u64>> {
        // Single pushes: consistent also after a panic.
        self.requests
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
