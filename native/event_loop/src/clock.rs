//! The clock of the loop, the same for timers, waits and the native library.

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
