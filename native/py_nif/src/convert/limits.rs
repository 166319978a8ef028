//! How much of a value crosses: settings of the application, `value_limits`.
//!
//! Relaxed everywhere: each number is for itself, and who converts while it is changed may see
//! either.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of an integer: printing one of these takes Python minutes.
static INTEGER_BYTES: AtomicUsize = AtomicUsize::new(1 << 20);

/// Values in a value. A few lists, each with the one before in it twice, would fill any memory.
static PARTS: AtomicUsize = AtomicUsize::new(30_000_000);

/// The VM's default is room for a million atoms, and it ends when they are used up.
static ATOMS: AtomicUsize = AtomicUsize::new(100_000);

pub fn set(integer_bytes: usize, parts: usize, atoms: usize) {
    INTEGER_BYTES.store(integer_bytes, Relaxed);
    PARTS.store(parts, Relaxed);
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
