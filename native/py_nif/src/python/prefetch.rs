//! Asks the processor for memory that will be needed soon. A server with a thousand connections
//! meets each after all the others: what it was is no longer in the caches, and what is in there
//! is found one pointer after the other. Asked for while the one before is served, it is there.
#![allow(unsafe_code)]

/// A line of the caches, on the processors that matter.
const LINE: usize = 64;

/// From `start` on, so many bytes. They need not be memory: nothing is read, and nothing fails.
#[inline]
pub fn prefetch<T>(start: *const T, bytes: usize) {
    let start = start.cast::<i8>();
    for offset in (0..bytes).step_by(LINE) {
        line(start.wrapping_add(offset));
    }
}

#[inline]
#[cfg(target_arch = "x86_64")]
fn line(address: *const i8) {
    use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
    // SAFETY: a hint, for any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
}

#[inline]
#[cfg(not(target_arch = "x86_64"))]
fn line(_address: *const i8) {}
