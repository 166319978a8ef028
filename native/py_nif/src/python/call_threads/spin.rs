//! How a call thread looks for the next call before it sleeps. One of them does at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use event_loop::Spin;

use super::super::spinning;

/// There is a call for the thread that spins. It takes the lock of the queue to get it, which
/// orders everything: Relaxed.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Before anybody can know that a thread spins: under the lock of the queue.
pub(super) fn begin() {
    TOLD.store(false, Ordering::Relaxed);
}

/// Under the lock of the queue, too.
pub(super) fn tell() {
    TOLD.store(true, Ordering::Relaxed);
}

/// Spins from `began` on. `true`: it was told of a call.
pub(super) fn run(habit: &mut Spin, began: u64) -> bool {
    spinning::spin(habit, began, || TOLD.load(Ordering::Relaxed))
}
