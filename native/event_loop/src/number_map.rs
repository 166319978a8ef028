//! Maps whose keys are numbers that we or the VM assign. An attacker cannot choose them so that
//! they collide, so the standard library's hash, which protects against that, is not needed. It
//! takes twenty times as long.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with such numbers as keys.
pub type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// Only multiplies.
#[derive(Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio, made odd: the upper bits, by which the map
        // distinguishes entries, depend on all bits of the number.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        // The lower bits, which choose the bucket, depend on lower bits of the number only, so the
        // upper ones are mixed in.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn hash(number: u64) -> u64 {
        let mut hasher = NumberHasher::default();
        hasher.write_u64(number);
        hasher.finish()
    }

    #[test]
    fn numbers_in_a_row_take_places_of_their_own() {
        for stride in [1, 64, 1 << 32] {
            let places: HashSet<u64> = (0..1000).map(|n| hash(n * stride) % 4096).collect();
            assert!(places.len() > 700, "stride {stride}: {}", places.len());
            let tags: HashSet<u64> = (0..1000).map(|n| hash(n * stride) >> 57).collect();
            assert!(tags.len() > 100, "stride {stride}: {}", tags.len());
        }
    }

    #[test]
    fn what_was_put_in_is_found() {
        let mut map = NumberMap::default();
        for n in 0..1000 {
            map.insert(n * n, n);
        }
        assert!((0..1000).all(|n| map.remove(&(n * n)) == Some(n)));
        assert!(map.is_empty());
    }
}
