//! A fuzzer's bytes as decisions: each step of a program takes what it needs, until none is left.

pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A number below `limit`; 0 when the bytes are used up.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.next().unwrap_or(0)) % limit.max(1)
    }
}
