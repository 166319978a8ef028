//! The one clock of the loop. Timers, waits and the native library call it.

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock behind Python's `time.monotonic()`: deadlines
/// computed on either side compare directly.
///
/// ```
/// let before = event_loop::now_ns();
/// assert!(event_loop::now_ns() >= before);
/// ```
#[must_use]
pub fn now_ns() -> u64 {
    crate::sys::time::monotonic_ns()
}

/// A number that grows with time, by one to five in a nanosecond, and is read in half the time that
/// [`now_ns`] takes. It only tells that little time has passed: two CPUs may disagree.
///
/// ```
/// let before = event_loop::ticks();
/// assert!(event_loop::ticks().wrapping_sub(before) < 1 << 62);
/// ```
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    crate::sys::time::ticks()
}
