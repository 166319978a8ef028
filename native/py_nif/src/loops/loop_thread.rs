//! Identifies a thread that runs loops: a request that would wait for the thread it comes from is
//! refused (`questions::chain`).

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a thread that runs loops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoopThread(NonZeroU64);

impl LoopThread {
    pub fn this() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            // Relaxed: only uniqueness matters.
            static NAME: LoopThread = LoopThread(
                NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).expect("it counts from 1"),
            );
        }
        NAME.with(|name| *name)
    }
}
