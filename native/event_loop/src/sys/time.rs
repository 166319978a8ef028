//! The monotonic clock and how exactly the kernel keeps a thread's timeouts.

use super::check;
use crate::error::Result;

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

/// The CPU's own counter; elsewhere the clock.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 CPU has it, and it touches no memory.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    monotonic_ns()
}

/// A point on, or a span of, the monotonic clock as the kernel wants it. Beyond what `time_t`
/// holds it is cut off there, which no wait outlives.
pub(super) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / NS_PER_SEC).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::try_from(ns % NS_PER_SEC)
            .expect("less than a second of nanoseconds fits in a c_long"),
    }
}

/// Asks the kernel to end this thread's timed waits within `ns` of their timeout. The default
/// of 50 us is added to every short sleep; a loop's thread asks for 1.
///
/// # Errors
/// Never on Linux for a non-zero `ns`.
pub fn set_timer_slack(ns: u32) -> Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one number, no pointers, and concerns this thread only.
    let answer = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(ns), 0, 0, 0) };
    check(answer).map(|_| ())
}

/// How often this thread was taken off its CPU for another, which wanted it. A pause that is not
/// counted here was the machine's own.
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

    #[test]
    fn slack_can_be_set() {
        assert_eq!(set_timer_slack(1), Ok(()));
    }
}
