//! Memory that operating system processes share and none can change: sealed memfds, mapped.
//!
//! A reader of a mapping of a file gets SIGBUS when another process shortens that file, and the node
//! ends. So only files whose seals forbid that, and any change, are mapped: [`SealedMemory::map`]
//! checks the seals, the size, and that the kernel has allocated all pages.
//!
//! `requests/memory_link.rs` passes such files to other processes; `convert` creates them from
//! buffers of Python.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;

use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::mm::{self, MapFlags, ProtFlags};
use rustler::{Env, Term};

use super::message::Sender;
use super::resource::{Ref, Resource, TypeCell};
use super::terms;

/// A part of a file that is sealed, or should be.
#[derive(Clone)]
pub struct Part {
    pub file: Arc<MemoryFile>,
    pub offset: u64,
    pub size: usize,
}

/// Closed on another thread if it is large.
pub struct MemoryFile {
    /// Taken when it is dropped.
    fd: Option<OwnedFd>,
    size: usize,
}

impl MemoryFile {
    pub fn new(fd: OwnedFd, size: usize) -> Arc<Self> {
        Arc::new(MemoryFile { fd: Some(fd), size })
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("only `drop` takes it").as_fd()
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        free(self.size, self.fd.take());
    }
}

const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::WRITE)
    .union(SealFlags::SEAL);

/// Memory is returned to the kernel by another thread from this size on: it takes some 0.1 ms a
/// megabyte, which is too long for a scheduler.
const FREE_ELSEWHERE_FROM: usize = 1 << 20;

fn create() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(fs::memfd_create(c"erlang_loop_data", flags)?)
}

/// A new sealed file of these bytes. Fails if there is no memory or no fd for it.
pub fn copy_of(bytes: &[u8]) -> io::Result<Part> {
    // `write` reports that memory is missing. A mapping would be filled at the price of SIGBUS.
    let mut file = File::from(create()?);
    file.write_all(bytes)?;
    fs::fcntl_add_seals(&file, SEALS)?;
    Ok(Part {
        file: MemoryFile::new(file.into(), bytes.len()),
        offset: 0,
        size: bytes.len(),
    })
}

impl Part {
    /// The file that these bytes are mapped from. `None`: they are other memory.
    pub fn of(bytes: &[u8]) -> Option<Part> {
        let first = bytes.as_ptr() as usize;
        let mappings = mappings();
        let (start, mapping) = mappings.range(..=first).next_back()?;
        if first + bytes.len() > start + mapping.size {
            return None;
        }
        Some(Part {
            file: mapping.file.upgrade()?,
            offset: mapping.offset + (first - start) as u64,
            size: bytes.len(),
        })
    }
}

/// A read-only mapping of a sealed file.
pub struct SealedMemory {
    first: *mut u8,
    /// What is mapped, from `first` on: whole pages, and the part in them.
    mapped: usize,
    skipped: usize,
    size: usize,
    /// So that it can be passed on; none if too many are open.
    kept: Option<KeptFile>,
}

// SAFETY: the memory is immutable, and unmapped with the value.
unsafe impl Send for SealedMemory {}
// SAFETY: as above.
unsafe impl Sync for SealedMemory {}

impl SealedMemory {
    /// Fails if other processes may change the file, if it is too short, or has gaps, which the
    /// kernel would fill at a read, or end this process. `keep`: the file stays open, so that it can
    /// be passed on.
    pub fn map(part: &Part, keep: bool) -> io::Result<Self> {
        let &Part { offset, size, .. } = part;
        let file = part.file.as_fd();
        if !fs::fcntl_get_seals(file)?.contains(SEALS) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let stat = fs::fstat(file)?;
        let has_gaps = (stat.st_blocks as u64) * 512 < stat.st_size as u64;
        let end = offset.checked_add(size as u64);
        if size == 0 || has_gaps || end.is_none_or(|end| end > stat.st_size as u64) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let skipped = (offset % rustix::param::page_size() as u64) as usize;
        let mapped = skipped + size;
        let from = offset - skipped as u64;
        // SAFETY: a new mapping. Its file cannot change or shrink any more. Private, because older
        // kernels refuse shared mappings of such a file.
        let first = unsafe {
            let (access, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
            mm::mmap(ptr::null_mut(), mapped, access, flags, file, from)?
        };
        let kept = keep.then(|| KeptFile::new(&part.file)).flatten();
        if kept.is_some() {
            let mapping = Mapping {
                size: mapped,
                offset: from,
                file: Arc::downgrade(&part.file),
            };
            mappings().insert(first as usize, mapping);
        }
        Ok(SealedMemory {
            first: first.cast(),
            mapped,
            skipped,
            size,
            kept,
        })
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: this part is mapped as long as `self` lives, and nothing changes it.
        unsafe { slice::from_raw_parts(self.first.add(self.skipped), self.size) }
    }

    /// A binary of this memory, which is unmapped when no process refers to it any more.
    pub fn into_binary(self, env: Env<'_>) -> Term<'_> {
        let owner = Ref::new(Mapped(Some(self)));
        let bytes = owner.0.as_ref().map_or(&[][..], SealedMemory::as_slice);
        // SAFETY: the memory is immutable and lives as long as `owner`.
        unsafe { terms::binary_of(env, &owner, bytes.as_ptr(), bytes.len()) }
    }
}

impl Drop for SealedMemory {
    fn drop(&mut self) {
        if self.kept.is_some() {
            mappings().remove(&(self.first as usize));
        }
        // SAFETY: `map` has created the mapping, and nothing refers to it any more.
        let _ = unsafe { mm::munmap(self.first.cast(), self.mapped) };
    }
}

/// The owner of a binary.
pub struct Mapped(Option<SealedMemory>);

impl Resource for Mapped {
    const NAME: &'static CStr = c"erlang_loop.sealed_memory";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn destroy(self, _sender: Sender<'_>) {
        if let Some(memory) = self.0 {
            free(memory.size, memory);
        }
    }
}

/// Memory that Python writes to, until it is sealed.
pub struct WritableMemory {
    first: *mut u8,
    size: usize,
    /// None after it was sealed.
    file: Option<OwnedFd>,
}

// SAFETY: no method refers to the contents, and it is unmapped with the value.
unsafe impl Send for WritableMemory {}

impl WritableMemory {
    /// Zeroes. Fails if there is no memory: the pages are allocated here. The kernel would end other
    /// processes to find them, so that is asked first.
    pub fn new(size: usize) -> io::Result<Self> {
        if size as u64 > available_memory()? {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let file = create()?;
        fs::ftruncate(&file, size as u64)?;
        let first = match size {
            0 => ptr::dangling_mut(),
            // SAFETY: a new mapping, of this file.
            _ => unsafe {
                fs::fallocate(&file, fs::FallocateFlags::empty(), 0, size as u64)?;
                let access = ProtFlags::READ | ProtFlags::WRITE;
                mm::mmap(ptr::null_mut(), size, access, MapFlags::SHARED, &file, 0)?.cast()
            },
        };
        Ok(WritableMemory {
            first,
            size,
            file: Some(file),
        })
    }

    pub fn first(&self) -> *mut u8 {
        self.first
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn is_sealed(&self) -> bool {
        self.file.is_none()
    }

    /// What it contains now, as memory that never changes. What is written here afterwards changes
    /// private copies of pages. Works once; fails if another process (a forked copy) can write.
    pub fn seal(&mut self) -> io::Result<SealedMemory> {
        let closed = || io::Error::from_raw_os_error(libc::EBUSY);
        let file = self.file.take().ok_or_else(closed)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: replaces exactly our own mapping, by one with the same contents and access.
        unsafe { mm::mmap(self.first.cast(), self.size, access, flags, &file, 0)? };
        fs::fcntl_add_seals(&file, SEALS)?;
        let file = MemoryFile::new(file, self.size);
        let part = Part {
            file,
            offset: 0,
            size: self.size,
        };
        SealedMemory::map(&part, true)
    }
}

impl Drop for WritableMemory {
    fn drop(&mut self) {
        if self.size > 0 {
            // SAFETY: `new` has created the mapping, and nothing refers to it any more.
            let _ = unsafe { mm::munmap(self.first.cast(), self.size) };
        }
    }
}

/// Bytes that processes can get without swapping.
fn available_memory() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let kilobytes = kilobytes.ok_or(io::ErrorKind::InvalidData)?;
    Ok(kilobytes * 1024)
}

/// Where the files of mappings that can be passed on are mapped.
struct Mapping {
    size: usize,
    offset: u64,
    file: Weak<MemoryFile>,
}

fn mappings() -> MutexGuard<'static, BTreeMap<usize, Mapping>> {
    static MAPPINGS: Mutex<BTreeMap<usize, Mapping>> = Mutex::new(BTreeMap::new());
    // Nothing panics in between.
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open file of a mapping. A quarter of the fds that this process may have: others are closed,
/// and what is mapped from them is copied when it is passed on.
struct KeptFile(#[allow(dead_code, reason = "keeps it open")] Arc<MemoryFile>);

static KEPT: AtomicUsize = AtomicUsize::new(0);

impl KeptFile {
    fn new(file: &Arc<MemoryFile>) -> Option<Self> {
        static LIMIT: OnceLock<usize> = OnceLock::new();
        let limit = *LIMIT.get_or_init(|| {
            let all = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
            usize::try_from(all.unwrap_or(1 << 20) / 4).unwrap_or(usize::MAX)
        });
        // Relaxed: only counts.
        if KEPT.fetch_add(1, Ordering::Relaxed) < limit {
            return Some(KeptFile(Arc::clone(file)));
        }
        KEPT.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a thread is to drop. The thread ends when there is no more.
struct Garbage {
    left: Vec<Box<dyn Send>>,
    has_thread: bool,
}

static GARBAGE: Mutex<Garbage> = Mutex::new(Garbage {
    left: Vec::new(),
    has_thread: false,
});

fn garbage() -> MutexGuard<'static, Garbage> {
    // Nothing panics in between.
    GARBAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops what refers to `size` bytes of memory: large memory on a thread of its own.
fn free<T: Send + 'static>(size: usize, what: T) {
    if size < FREE_ELSEWHERE_FROM {
        return drop(what);
    }
    let mut waiting = garbage();
    waiting.left.push(Box::new(what));
    if !waiting.has_thread {
        let name = "free_memory".to_owned();
        waiting.has_thread = thread::Builder::new().name(name).spawn(free_all).is_ok();
    }
    if !waiting.has_thread {
        let here = std::mem::take(&mut waiting.left);
        drop(waiting);
        drop(here);
    }
}

fn free_all() {
    loop {
        let mut waiting = garbage();
        let all = std::mem::take(&mut waiting.left);
        waiting.has_thread = !all.is_empty();
        drop(waiting);
        if all.is_empty() {
            return;
        }
        // May call `free` again.
        drop(all);
    }
}

/// A copy of a part in the VM's own memory, for when it cannot be mapped.
pub fn read(part: &Part, into: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    while at < into.len() {
        match rustix::io::pread(&*part.file, &mut into[at..], part.offset + at as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => at += count,
        }
    }
    Ok(())
}
