//! Numbers in memory that two operating system processes share, and that outlives either of them.
//!
//! For `requests/ledger.rs`.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

pub struct SharedWords {
    first: *mut AtomicU64,
    count: usize,
    file: File,
}

// SAFETY: the mapping belongs to this value, and its words are atomic.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Zeroes, in a file without a name. Sealed, so that no process can take the memory away.
    pub fn create(count: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(c"erlang_loop", flags)?);
        file.set_len((count * size_of::<AtomicU64>()) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(file, count)
    }

    /// The words of another process, by the path of its fd in `/proc`.
    pub fn open(path: &Path, count: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != (count * size_of::<AtomicU64>()) as u64 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Self::map(file, count)
    }

    fn map(file: File, count: usize) -> io::Result<Self> {
        // SAFETY: a new mapping of a file of this size, which cannot shrink.
        let first = unsafe {
            libc::mmap(
                ptr::null_mut(),
                count * size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if first == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedWords {
            first: first.cast(),
            count,
            file,
        })
    }

    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this size, begins at a page, and lives as long as `self`. All
        // processes access the words as atomics.
        unsafe { slice::from_raw_parts(self.first, self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: `map` has created the mapping, and nothing refers to it any more.
        unsafe { libc::munmap(self.first.cast(), self.count * size_of::<AtomicU64>()) };
    }
}
