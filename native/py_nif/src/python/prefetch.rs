//! Asks the processor for memory that will be needed soon. A server with a thousand connections
//! meets each after all the others, and so does a loop with many timers: what it was is no longer in
//! the caches, and what is in there is found one pointer after the other. Asked for while the ones
//! before are served, it is there.
#![allow(unsafe_code)]

use pyo3::ffi;

/// A line of the caches, on the processors that matter.
const LINE: usize = 64;

/// Where CPython keeps an object's dictionary and the collector's links: in front of it.
const BEFORE_OBJECT: usize = 32;
/// With these, and some attributes.
const SMALL_OBJECT: usize = 128;

/// A Python object, and what belongs to it.
#[inline]
pub fn prefetch_object(object: *const ffi::PyObject) {
    prefetch(object.wrapping_byte_sub(BEFORE_OBJECT), SMALL_OBJECT);
}

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
