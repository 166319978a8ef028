//! Whether a loop is warm: an event is likely soon, so it waits on its epoll set itself for a while
//! before it parks. The native library's waiting uses it.
//!
//! A loop that an event woke is warm. One that slept until a deadline may be warm or not: a timer
//! that sends a request is followed by a reply soon; one that only counts seconds is not, and would
//! wake its thread twice each time, at the deadline and at the end of the direct wait. So the loop
//! does what would have been right the last time, and parks at once if no event followed.

/// The state of one thread.
#[derive(Debug, Clone)]
pub struct Warmth {
    /// How long a direct wait lasts.
    direct_ns: u64,
    /// A deadline ended the last sleep.
    timed: bool,
    /// The last time a deadline did, an event came soon after.
    events_follow: bool,
}

impl Warmth {
    /// For a loop whose direct waits last `direct_ns` nanoseconds; 0 for a loop without.
    #[must_use]
    pub fn new(direct_ns: u64) -> Self {
        Self {
            direct_ns,
            timed: false,
            events_follow: false,
        }
    }

    /// Whether to wait directly now.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        self.direct_ns > 0 && (!self.timed || self.events_follow)
    }

    /// A direct wait has ended, or a spin that made it unnecessary. `met`: something happened in
    /// it.
    pub fn waited(&mut self, met: bool) {
        if self.timed {
            self.events_follow = met;
        }
        self.timed = false;
    }

    /// A parked sleep of `ns` nanoseconds has ended. `timed`: its deadline has come or is near, and
    /// nothing else has happened.
    pub fn slept(&mut self, ns: u64, timed: bool) {
        // There was no direct wait before it; a direct wait would have received what came.
        if self.timed && !timed && ns < self.direct_ns {
            self.events_follow = true;
        }
        self.timed = timed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECT: u64 = 5_000_000;
    const LONG: u64 = 1_000_000_000;
    const SOON: u64 = 100_000;

    /// A loop that slept until a deadline.
    fn cold() -> Warmth {
        let mut warmth = Warmth::new(DIRECT);
        assert!(warmth.is_warm(), "it has just begun");
        warmth.waited(false);
        warmth.slept(LONG, true);
        assert!(!warmth.is_warm());
        warmth
    }

    /// A loop whose timer was followed by an event soon.
    fn expecting() -> Warmth {
        let mut warmth = cold();
        warmth.slept(SOON, false);
        assert!(warmth.is_warm());
        warmth.waited(false);
        warmth
    }

    #[test]
    fn timers_that_are_followed_by_events_keep_it_warm() {
        let mut warmth = expecting();
        for _ in 0..3 {
            warmth.slept(LONG, true);
            assert!(warmth.is_warm());
            warmth.waited(true);
            assert!(warmth.is_warm());
            warmth.waited(false);
        }
    }

    #[test]
    fn timers_alone_let_it_park_at_once() {
        let mut warmth = expecting();
        warmth.slept(LONG, true);
        assert!(warmth.is_warm());
        warmth.waited(false);
        for _ in 0..3 {
            warmth.slept(LONG, true);
            assert!(!warmth.is_warm());
        }
    }

    #[test]
    fn an_event_makes_it_warm() {
        let mut warmth = cold();
        warmth.slept(LONG, false);
        assert!(warmth.is_warm());
        warmth.waited(false);
        warmth.slept(LONG, true);
        assert!(!warmth.is_warm(), "it came late: says nothing about timers");
    }

    #[test]
    fn without_direct_waits_it_never_is() {
        let mut warmth = Warmth::new(0);
        assert!(!warmth.is_warm());
        warmth.slept(SOON, false);
        assert!(!warmth.is_warm());
    }
}
