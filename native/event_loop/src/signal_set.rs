//! A set of signals of the operating system: number N is bit N - 1. The native library has two for
//! each loop, those it wants and those that arrived (`py_nif/src/loops/signals.rs`). Loom runs this
//! very file (`tests/loom_signal_set.rs`).

use crate::sync::{AtomicU64, Ordering};

/// For any thread. `AcqRel` throughout, except for the one cheap check: signals are rare, and the
/// strict order is easier to reason about.
#[derive(Debug)]
pub struct SignalSet {
    bits: AtomicU64,
}

/// The bit of a signal from 1 to 64; 0 for other numbers.
fn bit(number: i32) -> u64 {
    match number {
        1..=64 => 1 << (number - 1),
        _ => 0,
    }
}

impl SignalSet {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bits: AtomicU64::new(0),
        }
    }

    /// Whether it contains any: the check of each turn, a plain load. Relaxed: the wake that
    /// follows `insert` orders it, and a turn that just misses a signal is followed by another.
    #[inline]
    #[must_use]
    pub fn any(&self) -> bool {
        self.bits.load(Ordering::Relaxed) != 0
    }

    /// Whether it contains this signal.
    #[must_use]
    pub fn contains(&self, number: i32) -> bool {
        self.bits.load(Ordering::Acquire) & bit(number) != 0
    }

    /// Adds a signal; repeated ones are merged, as with signals.
    pub fn insert(&self, number: i32) {
        self.bits.fetch_or(bit(number), Ordering::AcqRel);
    }

    /// Removes a signal.
    pub fn remove(&self, number: i32) {
        self.bits.fetch_and(!bit(number), Ordering::AcqRel);
    }

    /// Empties it; returns the numbers that were in it.
    pub fn take(&self) -> impl Iterator<Item = i32> + use<> {
        let taken = self.bits.swap(0, Ordering::AcqRel);
        (1..=64).filter(move |number| taken & bit(*number) != 0)
    }
}

impl Default for SignalSet {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn holds_each_number_once() {
        let set = SignalSet::new();
        assert!(!set.any());
        for number in [1, 64, 15, 15, 0, 65, -1] {
            set.insert(number);
        }
        assert!(set.contains(64) && !set.contains(2) && !set.contains(0));
        set.remove(64);
        assert_eq!(set.take().collect::<Vec<_>>(), [1, 15]);
        assert!(!set.any());
        assert_eq!(set.take().count(), 0);
    }
}
