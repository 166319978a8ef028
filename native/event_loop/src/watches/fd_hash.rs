//! How the table of `watches` spreads descriptor numbers.

use std::hash::Hasher;

/// Distributes descriptor numbers over the table with one multiplication. An attacker cannot choose
/// them, so nothing stronger is needed.
#[derive(Debug, Default)]
pub(super) struct FdHasher(u64);

impl Hasher for FdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 << 8 | u64::from(byte));
        }
    }

    fn write_i32(&mut self, fd: i32) {
        self.write_u64(u64::from(fd.cast_unsigned()));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neighbours_differ_in_the_bits_a_table_looks_at() {
        let hash = |fd: i32| {
            let mut hasher = FdHasher::default();
            hasher.write_i32(fd);
            hasher.finish()
        };
        // The standard table chooses the bucket by the low bits and compares the top seven.
        let low: HashSet<_> = (0..1024).map(|fd| hash(fd) % 1024).collect();
        let top: HashSet<_> = (0..1024).map(|fd| hash(fd) >> 57).collect();
        assert!(
            low.len() > 500 && top.len() > 100,
            "{} {}",
            low.len(),
            top.len()
        );
    }
}
