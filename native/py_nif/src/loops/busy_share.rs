//! How busy a runner is: the share of its time in which it does not wait.
//!
//! The runner's thread records when it begins and ends to wait; other threads read this when they
//! choose a runner for a loop. Relaxed throughout: these are estimates and order nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// The share is measured over the last window of at least this length.
const WINDOW_NS: u64 = 100_000_000;
/// A thread that has not waited for this long is running a long callback.
const STUCK_NS: u64 = 20_000_000;
/// A thread that has waited for this long is idle.
const IDLE_NS: u64 = WINDOW_NS;

#[derive(Default)]
pub struct BusyShare {
    /// When the thread last began to wait or to run; the lowest bit says which: 1 for waiting.
    since: AtomicU64,
    window_began: AtomicU64,
    waited_in_window: AtomicU64,
    /// The share in the last complete window, in thousandths.
    share: AtomicU64,
}

impl BusyShare {
    pub fn begin_wait(&self, now: u64) {
        let began = self.window_began.load(Ordering::Relaxed);
        let length = now.saturating_sub(began);
        if length >= WINDOW_NS {
            let waited = self.waited_in_window.swap(0, Ordering::Relaxed).min(length);
            self.share
                .store((length - waited) * 1000 / length, Ordering::Relaxed);
            self.window_began.store(now, Ordering::Relaxed);
        }
        self.since.store(now | 1, Ordering::Relaxed);
    }

    pub fn end_wait(&self, now: u64) {
        let waited = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let window = self.waited_in_window.load(Ordering::Relaxed);
        // Only the runner's thread writes.
        self.waited_in_window
            .store(window + waited, Ordering::Relaxed);
        self.since.store(now & !1, Ordering::Relaxed);
    }

    /// How much of its recent time the thread was busy, in thousandths.
    pub fn share(&self, now: u64) -> u64 {
        let since = self.since.load(Ordering::Relaxed);
        let lasts = now.saturating_sub(since);
        match (since & 1 == 1, since) {
            // It has not begun yet.
            (_, 0) => 0,
            (true, _) if lasts > IDLE_NS => 0,
            (false, _) if lasts > STUCK_NS => 1000,
            _ => self.share.load(Ordering::Relaxed),
        }
    }
}
