//! Limits on the size of values that cross: the settings `max_integer_bytes`, `max_value_parts` and
//! `max_new_atoms` of the application.
//!
//! Relaxed everywhere: the numbers are independent, and a conversion that runs during a change may
//! use either value.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::error::ConvertError;

/// Bytes of an integer. Printing one of this size takes Python minutes.
static INTEGER_BYTES: AtomicUsize = AtomicUsize::new(1 << 20);

/// Values in a value. A few lists, each of which contains the one before twice, would fill any
/// memory.
static PARTS: AtomicUsize = AtomicUsize::new(30_000_000);

/// By default the VM has room for a million atoms, and ends when they are used up.
static ATOMS: AtomicUsize = AtomicUsize::new(100_000);

pub fn set(integer_bytes: usize, parts: usize, atoms: usize) {
    INTEGER_BYTES.store(integer_bytes, Relaxed);
    // The VM's functions take the length of a list in 32 bits.
    PARTS.store(parts.min(u32::MAX as usize), Relaxed);
    ATOMS.store(atoms, Relaxed);
}

pub fn integer_bytes() -> usize {
    INTEGER_BYTES.load(Relaxed)
}

pub fn parts() -> usize {
    PARTS.load(Relaxed)
}

pub fn atoms() -> usize {
    ATOMS.load(Relaxed)
}

pub fn too_many(limit: usize) -> ConvertError {
    ConvertError::refused(format!("more than {} values in one", printed(limit)))
}

/// `30,000,000`
pub fn printed(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
