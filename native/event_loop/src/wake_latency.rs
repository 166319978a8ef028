//! How late the kernel wakes a thread for its deadlines, measured from earlier wake-ups: a sleep
//! with a deadline ends this much earlier, and the thread spins for the rest. The native library's
//! waiting uses it. It keeps `asyncio.sleep(0.001)` less than half as late as uvloop's, which the loop
//! promises: 30 us after its time instead of 78 (`bench/`: sleep_1ms).
//!
//! A sleeping CPU takes a while to wake, 40 to 80 us on a virtual machine, which the kernel's
//! timers do not include. Spinning for the longest such time would take a twentieth of a CPU for
//! sleeps of 1 ms. So the estimate is an amount that most wake-ups exceed: these are late by the
//! rest, without any spinning, and the few early ones spin for the short time that is left.

/// The estimate falls by this part of how much earlier than expected a wake-up was,
const FALL: u64 = 4;
/// and rises by this part of how much later: so it settles well below the median.
const RISE: u64 = 16;

/// The estimate of one thread.
#[derive(Debug, Clone)]
pub struct WakeLatency {
    expected: u64,
    most: u64,
}

impl WakeLatency {
    /// Without measurements yet. It never spins for more than `most` nanoseconds; 0 for never.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self { expected: 0, most }
    }

    /// How much earlier to wake for something that is due in `left` nanoseconds.
    #[must_use]
    pub fn ahead(&self, left: u64) -> u64 {
        self.expected.min(left)
    }

    /// The thread woke at `now` and had asked for `asked`. Returns `false` if something else ended
    /// its sleep (a signal, or nothing at all), which says nothing about latency; it sleeps again.
    pub fn is_time(&mut self, now: u64, asked: u64) -> bool {
        let Some(late) = now.checked_sub(asked) else {
            return false;
        };
        // A very late one was kept off the CPU by other threads.
        let late = late.min(self.most);
        if late > self.expected {
            self.expected += (late - self.expected).div_ceil(RISE);
        } else {
            self.expected -= (self.expected - late).div_ceil(FALL);
        }
        true
    }

    /// While the rest was spun, another thread wanted the CPU: start measuring again.
    pub fn contended(&mut self) {
        self.expected = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 50_000;
    /// The wake-up time that it had asked for.
    const ASKED: u64 = 1_000_000_000;

    fn woken(latency: &mut WakeLatency, late: u64) {
        assert!(latency.is_time(ASKED + late, ASKED));
    }

    #[test]
    fn the_estimate_is_below_most_wake_ups() {
        let mut latency = WakeLatency::new(MOST);
        assert_eq!(latency.ahead(1_000_000), 0, "nothing is known");
        let lates = [20_000, 30_000, 40_000, 30_000, 25_000];
        (0..100).for_each(|_| lates.iter().for_each(|late| woken(&mut latency, *late)));
        let ahead = latency.ahead(1_000_000);
        let later = lates.iter().filter(|late| **late > ahead).count();
        assert!(later >= 3, "{later} of 5 were later than {ahead}");
        assert!(ahead >= 20_000, "{ahead}");
        assert_eq!(latency.ahead(7), 7, "not before it was asked for");
    }

    #[test]
    fn one_early_wake_up_outweighs_several_late_ones() {
        let mut latency = WakeLatency::new(MOST);
        (0..1000).for_each(|_| woken(&mut latency, 40_000));
        assert_eq!(latency.ahead(MOST), 40_000);
        woken(&mut latency, 0);
        assert_eq!(latency.ahead(MOST), 30_000);
        (0..3).for_each(|_| woken(&mut latency, 40_000));
        assert!(latency.ahead(MOST) < 32_000);
    }

    #[test]
    fn never_more_than_allowed() {
        let mut latency = WakeLatency::new(MOST);
        (0..1000).for_each(|_| woken(&mut latency, 10_000_000));
        assert_eq!(latency.ahead(u64::MAX), MOST);
        latency.contended();
        assert_eq!(latency.ahead(u64::MAX), 0);
        let mut never = WakeLatency::new(0);
        woken(&mut never, 10_000);
        assert_eq!(never.ahead(u64::MAX), 0);
    }

    #[test]
    fn a_sleep_that_ended_before_its_time_is_no_reason_to_spin() {
        let mut latency = WakeLatency::new(MOST);
        (0..1000).for_each(|_| woken(&mut latency, 40_000));
        assert!(!latency.is_time(ASKED - 1, ASKED));
        assert_eq!(latency.ahead(MOST), 40_000, "nothing was learnt");
    }
}
