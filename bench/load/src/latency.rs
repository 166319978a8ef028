//! How long replies took: a histogram with 64 steps for each doubling, so within 1.6 %.

use std::time::Duration;

const STEPS: usize = 64;

/// Counts by duration.
pub struct Latency {
    counts: Vec<u64>,
    total: u64,
}

impl Latency {
    pub fn new() -> Self {
        Self {
            counts: vec![0; STEPS * 64],
            total: 0,
        }
    }

    pub fn add(&mut self, taken: Duration) {
        let ns = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.counts[bucket(ns)] += 1;
        self.total += 1;
    }

    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The duration, in microseconds, that this share of the replies did not exceed.
    pub fn quantile_us(&self, share: f64) -> f64 {
        #[allow(clippy::cast_precision_loss)] // of counts far below 2^52
        let wanted = share * self.total as f64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            #[allow(clippy::cast_precision_loss)]
            if *count > 0 && seen as f64 >= wanted {
                return floor_of(index) as f64 / 1000.0;
            }
        }
        0.0
    }
}

/// The first 64 are exact; then the highest bit says which doubling, the six below it which step.
fn bucket(ns: u64) -> usize {
    let doubling = ns.ilog2() as usize;
    if doubling < 6 {
        return usize::try_from(ns).unwrap_or(0);
    }
    let step = usize::try_from(ns >> (doubling - 6)).unwrap_or(0) % STEPS;
    (doubling - 5) * STEPS + step
}

fn floor_of(index: usize) -> u64 {
    let (doubling, step) = (index / STEPS, (index % STEPS) as u64);
    if doubling == 0 {
        return step;
    }
    (64 + step) << (doubling - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_two_percent() {
        for ns in [
            1,
            5,
            63,
            64,
            65,
            127,
            128,
            1000,
            12_345,
            999_999_937,
            1 << 40,
        ] {
            let floor = floor_of(bucket(ns));
            assert!(
                floor <= ns && ns - floor <= ns / 60,
                "{ns} is in the bucket of {floor}"
            );
        }
    }

    #[test]
    fn quantiles() {
        let mut latency = Latency::new();
        for us in 1..=100 {
            latency.add(Duration::from_micros(us));
        }
        assert!((latency.quantile_us(0.5) - 50.0).abs() < 1.0);
        assert!((latency.quantile_us(0.99) - 99.0).abs() < 2.0);
        latency.clear();
        assert!(latency.quantile_us(0.5) < f64::EPSILON);
    }
}
