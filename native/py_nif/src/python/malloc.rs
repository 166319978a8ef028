//! Keeps malloc as fast for Python in a node as it is in python. [`super::interpreter`] calls it
//! before Python starts.
//!
//! glibc serves large blocks by mmap, from 128 KiB on, and raises that limit when a program frees
//! such a block: so a program that reads into a new buffer of 256 KiB again and again, as asyncio
//! does for TLS, maps memory once. The VM sets malloc's trim threshold when it starts, which by
//! glibc's rules ends the raising for good, and so every such read would be an mmap, a munmap and
//! page faults between: 50 us instead of 16 for a TLS request of 1 KiB (`bench/run --only tls`).
#![allow(unsafe_code)]

/// Blocks up to here come from the heap: what glibc would have found out by itself for buffers.
#[cfg(target_env = "gnu")]
const FROM_HEAP: libc::c_int = 4 * 1024 * 1024;

/// Sets both limits, unless the environment does: then somebody knows better.
#[cfg(target_env = "gnu")]
pub fn keep_large_blocks() {
    const SETTINGS: [&str; 3] = [
        "GLIBC_TUNABLES",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TRIM_THRESHOLD_",
    ];
    if SETTINGS.iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    // SAFETY: both may be set at any time, by any thread. The second keeps the top of the heap
    // from being given back and asked for in turns, with glibc's own proportion to the first.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, FROM_HEAP);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * FROM_HEAP);
    }
}

/// Other allocators have no such limit.
#[cfg(not(target_env = "gnu"))]
pub fn keep_large_blocks() {}
