//! A word that its owner can sleep on until another thread changes it. `parking` calls it.

use super::Waited;
use rustix::io::Errno;
use rustix::thread::futex;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;

/// One futex, private to this process.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
}

impl Futex {
    /// A word with its first value.
    #[must_use]
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
        }
    }

    /// The word itself; a thread that changes it while the owner sleeps calls [`wake`](Self::wake).
    #[must_use]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeps while the word is `expected`, until `deadline_ns` of the monotonic clock. The kernel
    /// compares and falls asleep in one step, so a change right before is not missed. May return
    /// without reason: the caller reads the word and waits again.
    pub fn wait(&self, expected: u32, deadline_ns: Option<u64>) -> Waited {
        let deadline = deadline_ns.map(super::time::timespec);
        // WAIT_BITSET (unlike WAIT) takes the timeout as a point in time, so repeating the call
        // after a spurious return does not extend it.
        let every_waker = NonZeroU32::MAX;
        let flags = futex::Flags::PRIVATE;
        match futex::wait_bitset(&self.word, flags, expected, deadline.as_ref(), every_waker) {
            Err(Errno::TIMEDOUT) => Waited::TimedOut,
            _ => Waited::Returned, // woken, changed already (EAGAIN) or a signal (EINTR)
        }
    }

    /// Wakes the sleeper, if there is one. From any thread.
    pub fn wake(&self) {
        // The owner is the only sleeper, so waking one is enough.
        let woken = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        debug_assert!(woken.is_ok(), "the word is an aligned address of ours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_changed_word_does_not_sleep() {
        assert_eq!(Futex::new(1).wait(0, None), Waited::Returned);
    }

    #[test]
    fn the_deadline_is_kept_and_never_early() {
        let deadline = crate::now_ns() + 3_000_000;
        let futex = Futex::new(0);
        while futex.wait(0, Some(deadline)) != Waited::TimedOut {}
        assert!(crate::now_ns() >= deadline);
    }

    #[test]
    fn a_wake_ends_the_wait() {
        let futex = Futex::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                futex.word().store(1, Ordering::Release);
                futex.wake();
            });
            while futex.word().load(Ordering::Acquire) == 0 {
                futex.wait(0, None);
            }
        });
    }
}
