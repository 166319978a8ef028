//! How a call thread looks for the next call before it sleeps. One of them does at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use event_loop::{now_ns, Spin};

use super::super::offer::Offer;

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
pub(super) fn run(spin: &mut Spin, began: u64) -> bool {
    let end = began.saturating_add(spin.budget());
    let mut cpu = Offer::default();
    let mut shared = false;
    loop {
        if TOLD.load(Ordering::Relaxed) {
            match shared {
                true => spin.handed_over(),
                false => spin.hit(),
            }
            return true;
        }
        if now_ns() >= end {
            spin.miss();
            return false;
        }
        match cpu.taken() {
            None => {}
            Some(taken) if taken.is_short() => shared = true,
            Some(_) => {
                spin.crowded();
                return TOLD.load(Ordering::Relaxed);
            }
        }
    }
}
