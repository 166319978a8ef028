//! The monotonic clock, and the time that a thread has lost to others.

pub(super) const NS_PER_SEC: u64 = 1_000_000_000;

/// `CLOCK_MONOTONIC` in nanoseconds: 584 years fit.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec of ours that outlives the call. The call cannot fail: the
    // clock always exists and the pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * NS_PER_SEC + now.tv_nsec.cast_unsigned()
}

/// A point on, or a span of, the monotonic clock in the kernel's format. It is limited to what
/// `time_t` can hold, longer than any wait.
pub(super) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / NS_PER_SEC).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::try_from(ns % NS_PER_SEC)
            .expect("less than a second of nanoseconds fits in a c_long"),
    }
}

/// How often this thread was taken off its CPU because another thread wanted it. A pause that is
/// not counted here was the machine's own.
#[must_use]
pub fn switches() -> i64 {
    // SAFETY: all zeroes is a valid rusage, a plain structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours and outlives the call, which cannot fail: the pointer is valid and
    // every thread may ask about itself.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
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
