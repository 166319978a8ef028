//! What a loop has done so far, for `stats` calls and tests. The loop's thread counts; any thread
//! may take a snapshot.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number that only grows. Relaxed throughout: it orders nothing.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds from any thread.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds from the loop's thread, if no other thread adds to this counter: a load and a store
    /// instead of a locked instruction, which would cost more than the rest of a short turn's
    /// bookkeeping.
    pub fn add_owned(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// The number so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares the counters and their snapshot from one list, so that they always agree.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one loop.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// The counters at one moment (each one separately: they are not read together).
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct CountersSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The numbers now.
            #[must_use]
            pub fn snapshot(&self) -> CountersSnapshot {
                CountersSnapshot { $($name: self.$name.get(),)* }
            }
        }

        impl CountersSnapshot {
            /// Names and numbers, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Turns of the loop.
    turns,
    /// Events of the epoll set that concerned a watch.
    events,
    /// Sleeps, or attempts to sleep, that another thread ended.
    wakeups,
    /// Times the loop slept while the BEAM watched.
    parks,
    /// Direct waits on the epoll set.
    polls,
    /// Spins that ended with an event.
    spin_hits,
    /// Spins that ended without an event.
    spin_misses,
    /// Timers that were due.
    timers_fired,
    /// Events of watches that had ended.
    stale_events,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_every_number() {
        let counters = Counters::default();
        counters.turns.add(2);
        counters.turns.add_owned(1);
        counters.stale_events.add(5);
        let snapshot = counters.snapshot();
        assert_eq!(
            (snapshot.turns, snapshot.stale_events, snapshot.parks),
            (3, 5, 0)
        );
        assert_eq!(snapshot.iter().next(), Some(("turns", 3)));
        assert_eq!(snapshot.iter().count(), 9);
    }
}
