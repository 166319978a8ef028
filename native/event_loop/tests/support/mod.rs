//! Shared by the stress tests: cheap random numbers, and a watchdog that fires when nothing
//! progresses.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Xorshift: reproducible, and without a dependency or a lock.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Ends the process with `state` printed when `progress` stands still for ten seconds, until
/// `done`. A hanging thread cannot be ended otherwise.
pub fn watchdog(progress: &AtomicU64, done: &AtomicBool, state: impl Fn() -> String) {
    let mut last = (progress.load(Ordering::Relaxed), Instant::now());
    while !done.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(20)); // only delays noticing the end
        let now = progress.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > Duration::from_secs(10) {
            // Past the test's capture, which would swallow it.
            let _ = writeln!(std::io::stderr(), "nothing moves at {now}:\n{}", state());
            std::process::exit(101);
        }
    }
}
