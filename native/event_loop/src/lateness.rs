//! How late the kernel wakes a thread for its deadlines, learnt from how late it was: a sleep that
//! is to end in time ends so much earlier, and the rest is spun. The native library's waiting asks
//! here.
//!
//! A CPU that sleeps takes a while to get up, 40 to 80 us on a virtual machine, and nobody counts
//! that in. To spin for as long as it might take would be a twentieth of a CPU for sleeps of 1 ms. So
//! it is an amount that most wake-ups exceed: they come late by the rest, without any spinning, and
//! the few that come early spin for the little that is left.

/// It moves by this part of what a wake-up came earlier than expected,
const FALL: u64 = 4;
/// and by this of what it came later: so it settles well below the middle.
const RISE: u64 = 16;

/// Of one thread.
#[derive(Debug, Clone)]
pub struct Lateness {
    expected: u64,
    most: u64,
}

impl Lateness {
    /// Nothing is known yet. Not more than `most` nanoseconds are ever spun; 0 for never.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self { expected: 0, most }
    }

    /// How much earlier to be woken for something that is due in `left` nanoseconds.
    #[must_use]
    pub fn ahead(&self, left: u64) -> u64 {
        self.expected.min(left)
    }

    /// The thread is up at `now` and had asked for `asked`. `false`: something else has ended its
    /// sleep (a signal, or nothing at all), of which there is nothing to learn; it sleeps again.
    pub fn is_time(&mut self, now: u64, asked: u64) -> bool {
        let Some(late) = now.checked_sub(asked) else {
            return false;
        };
        // One that was very late was kept from its CPU by others.
        let late = late.min(self.most);
        if late > self.expected {
            self.expected += (late - self.expected).div_ceil(RISE);
        } else {
            self.expected -= (self.expected - late).div_ceil(FALL);
        }
        true
    }

    /// While the rest was spun, somebody else wanted the CPU: it is learnt anew.
    pub fn crowded(&mut self) {
        self.expected = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 50_000;
    /// When it had asked to be woken.
    const ASKED: u64 = 1_000_000_000;

    fn woken(lateness: &mut Lateness, late: u64) {
        assert!(lateness.is_time(ASKED + late, ASKED));
    }

    #[test]
    fn settles_where_most_are_later() {
        let mut lateness = Lateness::new(MOST);
        assert_eq!(lateness.ahead(1_000_000), 0, "nothing is known");
        let lates = [20_000, 30_000, 40_000, 30_000, 25_000];
        (0..100).for_each(|_| lates.iter().for_each(|late| woken(&mut lateness, *late)));
        let ahead = lateness.ahead(1_000_000);
        let later = lates.iter().filter(|late| **late > ahead).count();
        assert!(later >= 3, "{later} of 5 were later than {ahead}");
        assert!(ahead >= 20_000, "{ahead}");
        assert_eq!(lateness.ahead(7), 7, "not before it was asked for");
    }

    #[test]
    fn one_early_wake_up_outweighs_several_late_ones() {
        let mut lateness = Lateness::new(MOST);
        (0..1000).for_each(|_| woken(&mut lateness, 40_000));
        assert_eq!(lateness.ahead(MOST), 40_000);
        woken(&mut lateness, 0);
        assert_eq!(lateness.ahead(MOST), 30_000);
        (0..3).for_each(|_| woken(&mut lateness, 40_000));
        assert!(lateness.ahead(MOST) < 32_000);
    }

    #[test]
    fn never_more_than_allowed() {
        let mut lateness = Lateness::new(MOST);
        (0..1000).for_each(|_| woken(&mut lateness, 10_000_000));
        assert_eq!(lateness.ahead(u64::MAX), MOST);
        lateness.crowded();
        assert_eq!(lateness.ahead(u64::MAX), 0);
        let mut never = Lateness::new(0);
        woken(&mut never, 10_000);
        assert_eq!(never.ahead(u64::MAX), 0);
    }

    #[test]
    fn a_sleep_that_ended_before_its_time_is_no_reason_to_spin() {
        let mut lateness = Lateness::new(MOST);
        (0..1000).for_each(|_| woken(&mut lateness, 40_000));
        assert!(!lateness.is_time(ASKED - 1, ASKED));
        assert_eq!(lateness.ahead(MOST), 40_000, "nothing was learnt");
    }
}
