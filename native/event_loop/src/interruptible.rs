//! Interrupts the call that runs on a thread, and no other: the loop's stuck callback, a function
//! that has timed out. Loom runs this very file (`tests/loom_interruptible.rs`).
//!
//! An interrupt is sent to a *thread* (CPython's asynchronous exceptions: raised before the next
//! bytecode, whatever code that belongs to by then). So it is sent only while the call runs, and
//! when the call ends, its thread removes an interrupt that was sent and not raised.
//!
//! | the thread of the calls | another thread |
//! |---|---|
//! | records that the call has ended | records that it sends |
//! | checks whether something was sent | checks whether the call still runs, and sends |
//!
//! Between its two steps each has a fence, so at least one of the two sees what the other has
//! recorded. Where both hold a lock (`LOCKED`: the GIL), the lock orders them.

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// The calls of one thread; they may be nested.
#[derive(Debug)]
pub struct Interruptible<const LOCKED: bool> {
    /// The number of the call that runs; 0: none.
    current: AtomicU64,
    /// An interrupt was sent to `current`, and may not have been raised yet.
    sent: AtomicBool,
    /// Held while an interrupt is sent or removed.
    sending: Mutex<()>,
}

impl<const LOCKED: bool> Interruptible<LOCKED> {
    /// No call runs.
    #[must_use]
    pub fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            sent: AtomicBool::new(false),
            sending: Mutex::new(()),
        }
    }

    /// The calling thread runs the call of this number from now on; 0: none. Returns the call that
    /// it ran before, and whether an interrupt was sent to that one: the caller must remove it
    /// before anything else runs.
    #[inline]
    pub fn switch(&self, to: u64) -> (u64, bool) {
        // Relaxed: only this thread writes it.
        let from = self.current.load(Ordering::Relaxed);
        self.current.store(to, Ordering::Relaxed);
        Self::order();
        let sent = self.sent.load(Ordering::Relaxed);
        (from, sent && self.end_sending())
    }

    #[cold]
    fn end_sending(&self) -> bool {
        let _held = self.lock();
        self.sent.swap(false, Ordering::Relaxed)
    }

    #[inline]
    fn order() {
        if !LOCKED {
            fence(Ordering::SeqCst);
        }
    }

    /// The call that runs; 0: none. Any thread.
    pub fn running(&self) -> u64 {
        self.current.load(Ordering::Relaxed)
    }

    /// Calls `deliver` if the call of this number still runs. From any other thread.
    pub fn send(&self, number: u64, deliver: impl FnOnce()) -> bool {
        let _held = self.lock();
        let before = self.sent.swap(true, Ordering::Relaxed);
        Self::order();
        let runs = number != 0 && self.running() == number;
        match runs {
            true => deliver(),
            false => self.sent.store(before, Ordering::Relaxed),
        }
        runs
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // It only guards an order, so poisoning does not matter.
        self.sending
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<const LOCKED: bool> Default for Interruptible<LOCKED> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_call_that_runs_is_interrupted() {
        let calls = Interruptible::<true>::new();
        assert!(!calls.send(0, || panic!("no call runs")));
        assert_eq!(calls.switch(1), (0, false));
        assert_eq!(calls.running(), 1);
        assert!(!calls.send(2, || panic!("another call")));
        let mut sent = 0;
        assert!(calls.send(1, || sent += 1));
        // An interrupt for the running call stays recorded.
        assert!(!calls.send(2, || panic!("another call")));
        assert_eq!((sent, calls.switch(0)), (1, (1, true)));
        assert_eq!(calls.switch(0), (0, false));
    }

    #[test]
    fn nested_calls_are_distinct() {
        let calls = Interruptible::<true>::new();
        let (outside, _) = calls.switch(1);
        assert!(calls.send(1, || ()));
        assert_eq!(calls.switch(2), (1, true));
        assert!(!calls.send(1, || panic!("not while the other runs")));
        assert_eq!(calls.switch(1), (2, false));
        assert!(calls.send(1, || ()));
        assert_eq!(calls.switch(outside), (1, true));
    }
}
