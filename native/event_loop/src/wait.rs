//! The adaptive part of waiting, as pure logic: how long a loop spins before it sleeps, and what
//! keeps the next deadline while it is parked. The native library's turn uses it.

use std::sync::OnceLock;

/// How a loop waits. All in nanoseconds; can be set per loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPolicy {
    /// The first spin. Sleeping and being woken takes about as long, more on a virtual machine.
    pub spin_start_ns: u64,
    /// The longest spin; 0 never spins.
    pub spin_max_ns: u64,
    /// After a wait shorter than this, spinning is tried: such a wait may have been little more
    /// than the wake-ups of two sleeping CPUs, one in each direction.
    pub short_ns: u64,
    /// How long a loop waits on its epoll set itself before it parks; 0 parks at once.
    pub direct_ns: u64,
    /// Deadlines nearer than this go into the timerfd, later ones to the BEAM.
    pub near_timer_ns: u64,
    /// Deadlines nearer than this are kept by the sleeping thread itself: one wake-up, on time. The
    /// BEAM's takes three threads, and is early so that the rest can be exact.
    pub own_timer_ns: u64,
    /// How long before a deadline the BEAM wakes the loop: its timers have a resolution of 1 ms and
    /// fire up to 1 ms late. The rest is waited for precisely.
    pub beam_margin_ns: u64,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self {
            spin_start_ns: 50_000,
            spin_max_ns: 100_000,
            short_ns: 200_000,
            direct_ns: 5_000_000,
            near_timer_ns: 20_000_000,
            own_timer_ns: 60_000_000_000,
            beam_margin_ns: 2_000_000,
        }
    }
}

impl WaitPolicy {
    /// Waits on the epoll set itself for this long; with 0 the BEAM does all waiting.
    pub fn wait_directly(&mut self, ns: u64) {
        self.direct_ns = ns;
        if ns == 0 {
            self.own_timer_ns = 0;
        }
    }
}

/// How long to spin, learned from how often it paid off.
///
/// The time grows by half after a hit, and becomes zero after [`PATIENCE`](Self::PATIENCE) misses
/// in a row: an idle loop must not use the CPU. Spinning is tried again, with one probe, when a
/// real wait was short. A short wait is longer than a spin: a wait that includes the wake-ups of
/// two sleeping CPUs, one in each direction, is much shorter if neither sleeps. So some probes
/// fail, and after a failed probe, a few short waits pass without one.
///
/// Where other threads want the CPU, a spin only keeps them off it, perhaps the very one that it
/// waits for. So it ends at once when that is [noticed](Self::contended), and no probe is made for a
/// while. This time grows with each occurrence, until many hits in between show that it was an
/// accident.
#[derive(Debug, Clone)]
pub struct SpinBudget {
    start: u64,
    max: u64,
    short: u64,
    budget: u64,
    misses: u32,
    /// Hits since the last contention for the CPU, or since half of it was forgotten.
    hits: u32,
    /// How many short waits pass before the next probe, and how many after the next contention.
    pause: u32,
    next_pause: u32,
}

impl SpinBudget {
    /// After this many misses in a row it stops spinning.
    pub const PATIENCE: u32 = 3;
    /// How many short waits pass without a probe after a failed one.
    pub const PAUSE: u32 = 32;
    /// The same after contention for the CPU: the first and the greatest value.
    pub const PAUSES: (u32, u32) = (16, 4096);
    /// This many hits halve the time without a probe after the next contention.
    pub const FORGIVEN: u32 = 16;

    /// For this machine: on a single CPU a spin only delays the thread that it waits for.
    #[must_use]
    pub fn new(policy: &WaitPolicy) -> Self {
        // Read once: it reads several files, which takes longer than creating a loop.
        static CPUS: OnceLock<usize> = OnceLock::new();
        let cpus = CPUS.get_or_init(|| {
            // If the number of CPUs is unknown, assume one.
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        Self::with_cpus(policy, *cpus)
    }

    /// For a machine with this many CPUs.
    #[must_use]
    pub fn with_cpus(policy: &WaitPolicy, cpus: usize) -> Self {
        let max = if cpus > 1 { policy.spin_max_ns } else { 0 };
        Self {
            start: policy.spin_start_ns.min(max),
            max,
            short: policy.short_ns,
            budget: 0,
            misses: 0,
            hits: 0,
            pause: 0,
            next_pause: Self::PAUSES.0,
        }
    }

    /// How long it spins before anything is known, in nanoseconds; 0 if it never does.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.start
    }

    /// How long to spin now, in nanoseconds; 0 for not at all.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// The spin ended with an event.
    pub fn hit(&mut self) {
        self.misses = 0;
        self.hits += 1;
        if self.hits == Self::FORGIVEN {
            self.hits = 0;
            self.next_pause = (self.next_pause / 2).max(Self::PAUSES.0);
        }
        self.budget = self
            .budget
            .saturating_add(self.budget / 2)
            .max(self.start)
            .min(self.max);
    }

    /// The spin ended without an event.
    pub fn miss(&mut self) {
        self.misses += 1;
        if self.misses >= Self::PATIENCE {
            self.budget = 0;
            self.pause = Self::PAUSE;
        }
    }

    /// The CPU was passed to the thread that the spin waited for, and back with an event. That pays
    /// off, but does not show that no other thread wants the CPU, as a [hit](Self::hit) does.
    pub fn handed_over(&mut self) {
        self.misses = 0;
    }

    /// While it spun, another thread had the CPU.
    pub fn contended(&mut self) {
        self.budget = 0;
        self.hits = 0;
        self.pause = self.next_pause;
        self.next_pause = self.next_pause.saturating_mul(2).min(Self::PAUSES.1);
    }

    /// A wait without spinning lasted this long.
    pub fn note_wait(&mut self, waited_ns: u64) {
        if self.max == 0 || self.budget > 0 || waited_ns >= self.short {
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
        } else {
            self.budget = self.start;
            self.misses = Self::PATIENCE - 1; // one probe: a miss ends it again
        }
    }
}

/// What wakes a parked loop for its next deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerPlan {
    /// There is no deadline.
    None,
    /// The timerfd, at this time.
    TimerFd(u64),
    /// The BEAM, this long from now; the loop looks again then.
    Beam {
        /// For `send_after`.
        delay_ms: u64,
    },
}

/// Decides what keeps `deadline`. The BEAM is cheap but coarse, so it only wakes the loop some time
/// before, and what is left is near enough for the timerfd.
#[must_use]
pub fn plan_timer(now: u64, deadline: Option<u64>, policy: &WaitPolicy) -> TimerPlan {
    let Some(deadline) = deadline else {
        return TimerPlan::None;
    };
    let left = deadline.saturating_sub(now);
    let delay_ms = left.saturating_sub(policy.beam_margin_ns) / 1_000_000;
    if left < policy.near_timer_ns || delay_ms == 0 {
        TimerPlan::TimerFd(deadline)
    } else {
        TimerPlan::Beam { delay_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One whose first probe ended with an event.
    fn spin() -> SpinBudget {
        let mut spin = SpinBudget::with_cpus(&WaitPolicy::default(), 2);
        assert_eq!(spin.budget(), 0, "nothing is known yet");
        spin.note_wait(30_000);
        assert_eq!(spin.budget(), 50_000);
        spin.hit();
        spin
    }

    #[test]
    fn hits_grow_to_the_maximum() {
        let mut spin = spin();
        assert_eq!(spin.budget(), 75_000);
        (0..9).for_each(|_| spin.hit());
        assert_eq!(spin.budget(), 100_000);
    }

    #[test]
    fn misses_in_a_row_stop_spinning_unless_a_hit_comes_between() {
        let mut spin = spin();
        (0..2).for_each(|_| spin.miss());
        spin.hit();
        (0..2).for_each(|_| spin.miss());
        assert_eq!(spin.budget(), 100_000);
        spin.miss();
        assert_eq!(spin.budget(), 0);
    }

    /// How many short waits pass until it is tried again.
    fn waits(spin: &mut SpinBudget) -> u32 {
        let mut count = 0;
        while spin.budget() == 0 {
            spin.note_wait(100_000);
            count += 1;
        }
        count
    }

    #[test]
    fn a_short_wait_allows_one_probe() {
        let mut spin = spin();
        (0..3).for_each(|_| spin.miss());
        spin.note_wait(1_000_000);
        assert_eq!(
            waits(&mut spin),
            SpinBudget::PAUSE + 1,
            "long ones do not count"
        );
        assert_eq!(spin.budget(), 50_000);
        spin.miss();
        assert_eq!(waits(&mut spin), SpinBudget::PAUSE + 1, "it failed");
        spin.hit();
        spin.miss();
        assert_eq!(spin.budget(), 75_000, "after a hit it is patient again");
    }

    #[test]
    fn contention_stops_spinning_for_longer_each_time() {
        let mut spin = spin();
        let pauses = [0; 3].map(|_| {
            spin.contended();
            waits(&mut spin)
        });
        assert_eq!(pauses, [17, 33, 65]);
        (1..SpinBudget::FORGIVEN).for_each(|_| spin.hit());
        spin.contended();
        assert_eq!(waits(&mut spin), 129, "a few hits are not enough");
        (0..4 * SpinBudget::FORGIVEN).for_each(|_| spin.hit());
        spin.contended();
        assert_eq!(waits(&mut spin), 17, "many make it probe again");
    }

    #[test]
    fn passing_the_cpu_back_and_forth_is_neither_a_miss_nor_a_hit() {
        let mut spin = spin();
        spin.miss();
        spin.miss();
        spin.handed_over();
        spin.miss();
        assert_eq!(spin.budget(), 75_000, "it is no miss");
        spin.contended();
        assert_eq!(waits(&mut spin), 17);
        (0..4 * SpinBudget::FORGIVEN).for_each(|_| spin.handed_over());
        spin.contended();
        assert_eq!(waits(&mut spin), 33, "others may still want the CPU");
    }

    #[test]
    fn never_on_one_cpu_or_when_switched_off() {
        let off = WaitPolicy {
            spin_max_ns: 0,
            ..WaitPolicy::default()
        };
        for mut spin in [
            SpinBudget::with_cpus(&WaitPolicy::default(), 1),
            SpinBudget::with_cpus(&off, 8),
        ] {
            spin.hit();
            spin.note_wait(0);
            assert_eq!((spin.budget(), spin.first()), (0, 0));
        }
    }

    #[test]
    fn near_deadlines_are_exact_and_far_ones_early() {
        const MS: u64 = 1_000_000;
        let plan = |left| plan_timer(1_000, Some(1_000 + left), &WaitPolicy::default());
        assert_eq!(
            plan_timer(1_000, None, &WaitPolicy::default()),
            TimerPlan::None
        );
        assert_eq!(
            plan_timer(1_000, Some(5), &WaitPolicy::default()),
            TimerPlan::TimerFd(5)
        );
        assert_eq!(plan(20 * MS - 1), TimerPlan::TimerFd(1_000 + 20 * MS - 1));
        assert_eq!(plan(20 * MS), TimerPlan::Beam { delay_ms: 18 });
        assert_eq!(plan(100 * MS + 999_999), TimerPlan::Beam { delay_ms: 98 });
        let no_near = WaitPolicy {
            near_timer_ns: 0,
            ..WaitPolicy::default()
        };
        assert_eq!(
            plan_timer(0, Some(2 * MS), &no_near),
            TimerPlan::TimerFd(2 * MS)
        );
    }
}
