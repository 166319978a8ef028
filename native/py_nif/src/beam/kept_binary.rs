//! A binary that outlives the environment in which it arrived, and its memory.
#![allow(unsafe_code)]

use std::{ptr, slice};

use rustler::{Binary, Term};

use super::terms::KeptTerm;

/// Shares the memory of a large binary; one of at most 64 bytes is copied.
pub struct KeptBinary {
    /// Keeps the memory alive. No other term is added to its environment.
    _term: KeptTerm,
    bytes: *const u8,
    size: usize,
}

// SAFETY: the bytes never change, and `KeptTerm` is both.
unsafe impl Send for KeptBinary {}
// SAFETY: as above.
unsafe impl Sync for KeptBinary {}

impl KeptBinary {
    /// `None`: not a binary.
    pub fn new(term: Term<'_>) -> Option<Self> {
        let term = KeptTerm::new(term);
        let (bytes, size) = term.with(|kept| {
            let binary = Binary::from_term(kept).ok()?;
            Some(match binary.len() {
                0 => (ptr::null(), 0),
                size => (binary.as_slice().as_ptr(), size),
            })
        })?;
        Some(KeptBinary {
            _term: term,
            bytes,
            size,
        })
    }

    pub fn as_slice(&self) -> &[u8] {
        match self.size {
            0 => &[],
            // SAFETY: this is where the VM has the bytes of the term, which stay there as long as
            // its environment is neither cleared nor freed.
            size => unsafe { slice::from_raw_parts(self.bytes, size) },
        }
    }
}
