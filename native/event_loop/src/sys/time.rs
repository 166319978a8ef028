//! The monotonic clock, and the time that a thread has lost to others.

#![allow(unsafe_code)] // rustix has no `getrusage`

use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_SEC: u64 = 1_000_000_000;

/// `CLOCK_MONOTONIC` in nanoseconds: 584 years fit.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * NS_PER_SEC + now.tv_nsec.cast_unsigned()
}

/// A point on, or a span of, the monotonic clock in the kernel's format.
pub(super) fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / NS_PER_SEC).cast_signed(), // below 2^63: divided by a billion
        tv_nsec: (ns % NS_PER_SEC).cast_signed(),
    }
}

/// How often this thread was taken off its CPU because another thread wanted it. A pause that is
/// not counted here was the machine's own.
#[must_use]
pub fn switches() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills `usage`. It cannot fail: every thread may ask about itself.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_nivcsw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timespec_splits_at_the_second() {
        let t = timespec(3 * NS_PER_SEC + 7);
        assert_eq!((t.tv_sec, t.tv_nsec), (3, 7));
    }

    #[test]
    fn switches_are_counted() {
        let before = switches();
        assert!(before >= 0);
        std::thread::yield_now();
        assert!(switches() >= before);
    }
}
