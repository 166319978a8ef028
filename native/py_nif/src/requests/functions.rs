//! How long the functions took that Erlang has called, by their names: for the dashboard. Only calls
//! of at least 0.1 ms are counted, so that short ones pay no more than a comparison.

use std::sync::{Mutex, MutexGuard, PoisonError};

use event_loop::now_ns;
use rustc_hash::FxHashMap;

const SHORTEST_NS: u64 = 100_000;
/// Further functions are counted together, under this name.
const MAX_FUNCTIONS: usize = 1000;
const OTHERS: &str = "(other functions)";
/// Four for each doubling.
const CLASSES: usize = 40 * 4;

pub struct Times {
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
    classes: Box<[u32; CLASSES]>,
}

static FUNCTIONS: Mutex<Option<FxHashMap<Box<str>, Times>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<FxHashMap<Box<str>, Times>>> {
    FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that began at this time (ns) has ended. From our own threads.
#[inline]
pub fn ended(name: &str, began: u64) {
    let took = now_ns().saturating_sub(began);
    if began != 0 && took >= SHORTEST_NS {
        count(name, took);
    }
}

#[cold]
fn count(name: &str, took: u64) {
    let mut functions = lock();
    let functions = functions.get_or_insert_default();
    if let Some(times) = functions.get_mut(name) {
        return times.add(took);
    }
    let name = match functions.len() < MAX_FUNCTIONS {
        true => name,
        false => OTHERS,
    };
    functions.entry(name.into()).or_default().add(took);
}

impl Default for Times {
    fn default() -> Self {
        Times {
            count: 0,
            total_ns: 0,
            longest_ns: 0,
            classes: Box::new([0; CLASSES]),
        }
    }
}

impl Times {
    fn add(&mut self, took: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(took);
        self.longest_ns = self.longest_ns.max(took);
        let class = &mut self.classes[class(took)];
        *class = class.saturating_add(1);
    }

    /// What 99 % of the calls did not exceed: the bound of a class, at most a quarter too long.
    pub fn p99_ns(&self) -> u64 {
        let all: u64 = self.classes.iter().map(|count| u64::from(*count)).sum();
        let mut left = all - all / 100;
        for (at, count) in self.classes.iter().enumerate() {
            left = left.saturating_sub(u64::from(*count));
            if left == 0 {
                return bound(at).min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

fn class(took: u64) -> usize {
    let octave = took.max(4).ilog2() as usize;
    let quarter = (took.max(4) >> (octave - 2)) as usize & 3;
    (octave * 4 + quarter).min(CLASSES - 1)
}

fn bound(class: usize) -> u64 {
    let (octave, quarter) = (class / 4, class as u64 % 4);
    (5 + quarter) << octave.saturating_sub(2)
}

/// Each function's name, and its times.
pub fn each<R>(mut read: impl FnMut(&str, &Times) -> R) -> Vec<R> {
    (lock().iter().flatten())
        .map(|(name, times)| read(name, times))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p99_is_at_most_a_quarter_too_long() {
        let mut times = Times::default();
        for took in 1..=1000 {
            times.add(took * 1_000_000);
        }
        let p99 = times.p99_ns();
        assert!((990_000_000..=1_000_000_000).contains(&p99), "{p99}");
        for took in [5, 100_000, 123_456_789, 1 << 38] {
            let bound = bound(class(took));
            assert!(
                bound > took && bound <= took + took / 4 + 1,
                "{took} {bound}"
            );
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }
}
