//! Signals under their Erlang names, and their current dispositions.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustler::{Atom, sys};

use crate::atoms;

/// The signals that some OTP release accepts in `os:set_signal/2`; older releases reject the newer
/// names. SIGINT is listed for the day OTP accepts it: so far the VM keeps it.
pub const NAMES: [(i32, fn() -> Atom); 12] = [
    (libc::SIGABRT, atoms::sigabrt),
    (libc::SIGALRM, atoms::sigalrm),
    (libc::SIGCHLD, atoms::sigchld),
    (libc::SIGCONT, atoms::sigcont),
    (libc::SIGHUP, atoms::sighup),
    (libc::SIGINT, atoms::sigint),
    (libc::SIGQUIT, atoms::sigquit),
    (libc::SIGTERM, atoms::sigterm),
    (libc::SIGTSTP, atoms::sigtstp),
    (libc::SIGUSR1, atoms::sigusr1),
    (libc::SIGUSR2, atoms::sigusr2),
    (libc::SIGWINCH, atoms::sigwinch),
];

/// As `os:set_signal/2` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    Default = 1,
    Ignore = 2,
    Handle = 3,
}

impl Disposition {
    pub fn name(self) -> Atom {
        match self {
            Disposition::Default => atoms::default(),
            Disposition::Ignore => atoms::ignore(),
            Disposition::Handle => atoms::handle(),
        }
    }
}

/// The current disposition of signal `number`. OTP can set dispositions but not read them.
pub fn disposition(number: i32) -> Disposition {
    match handler(number) {
        libc::SIG_DFL => Disposition::Default,
        libc::SIG_IGN => Disposition::Ignore,
        _ => Disposition::Handle,
    }
}

/// The handler's address, or one of the two constants.
fn handler(number: i32) -> libc::sighandler_t {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: this only reads; the result is written to `action`, for which zeroes are valid, too.
    unsafe {
        libc::sigaction(number, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    }
}

/// The VM's own code, from its first address to behind its last; empty if unknown.
static VM_CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Called once, when the library is loaded. Relaxed: every search finds the same.
pub fn find_vm() {
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        _data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes an object and its segments, valid for this call.
        let (base, segments) = unsafe {
            let object = &*object;
            let count = usize::from(object.dlpi_phnum);
            let segments = std::slice::from_raw_parts(object.dlpi_phdr, count);
            (object.dlpi_addr as usize, segments)
        };
        let function_of_vm = sys::enif_alloc as *const () as usize;
        for segment in segments.iter().filter(|one| one.p_type == libc::PT_LOAD) {
            let first = base + segment.p_vaddr as usize;
            let behind = first + segment.p_memsz as usize;
            if (first..behind).contains(&function_of_vm) {
                VM_CODE[0].store(first, Ordering::Relaxed);
                VM_CODE[1].store(behind, Ordering::Relaxed);
                return 1;
            }
        }
        0
    }
    // SAFETY: `look` only reads the arguments.
    unsafe { libc::dl_iterate_phdr(Some(look), ptr::null_mut()) };
}

/// Resets the signals that the VM handles to their default disposition. Async-signal-safe.
pub fn remove_handlers_of_vm() {
    let [first, behind] = VM_CODE.each_ref().map(|one| one.load(Ordering::Relaxed));
    for number in 1..=libc::SIGRTMAX() {
        if (first..behind).contains(&handler(number)) {
            // SAFETY: no handler is set.
            unsafe { libc::signal(number, libc::SIG_DFL) };
        }
    }
}

/// The kernel kills this process when its parent ends, even if it is stopped.
pub fn end_with_parent() {
    // SAFETY: no memory involved. The request is one of the calling thread, a scheduler, which lives
    // as long as the process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}
