//! Who receives the signals of a process that runs a command line: Python's threads, as in a
//! python that has the process for itself.
//!
//! The kernel gives a signal to any thread that does not block it, the process's first one before
//! all others, and that one is the VM's. Python's own handler may run on any thread, but what
//! Python's main thread waits in (a sleep, a read, `sigwait`) ends only if the signal comes to
//! that thread. So all threads of the VM block all signals, and the main thread of Python, being
//! the oldest that does not, is the one the kernel chooses.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io, ptr, thread};

/// How many threads have blocked their signals.
static VISITED: AtomicU32 = AtomicU32::new(0);

/// Called on Python's main thread before Python starts. Threads that the VM starts later block
/// what those that start them block.
pub fn take_over() -> io::Result<()> {
    // SAFETY: `own` only names the calling thread; SIGFPE, which the VM ignores, is what children
    // of Python would inherit.
    let own = unsafe {
        libc::signal(libc::SIGFPE, libc::SIG_DFL);
        libc::gettid()
    };
    let visit = libc::SIGRTMAX() - 1;
    let before = install(visit, Action::Visit)?;
    let mut sent = 0;
    for entry in fs::read_dir("/proc/self/task")? {
        let id = entry?.file_name().to_string_lossy().parse::<libc::pid_t>();
        match id {
            Ok(id) if id != own => sent += visit_thread(id, visit),
            _ => {}
        }
    }
    // A thread takes the signal when it next runs or, sleeping, at once. One that ended meanwhile
    // never does: not worth more than this wait. But on a busy machine one may come late, and
    // without a handler its signal would end the process: then the handler stays.
    for _ in 0..1000 {
        if VISITED.load(Ordering::Acquire) >= sent {
            install(visit, Action::Restore(before))?;
            break;
        }
        thread::sleep(Duration::from_micros(100));
    }
    unblock_here();
    Ok(())
}

/// For every thread of ours that runs Python: what it starts (threads, processes) inherits what
/// it blocks, and a child that blocks SIGTERM cannot be ended.
pub fn unblock_here() {
    // SAFETY: an empty set for the calling thread.
    unsafe {
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

fn visit_thread(id: libc::pid_t, signal: c_int) -> u32 {
    // SAFETY: sends a signal that `visit` handles to a thread of this process, or to none.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, signal) };
    u32::from(sent == 0)
}

enum Action {
    Visit,
    Restore(libc::sigaction),
}

/// Sets what `signal` does and answers what it did.
fn install(signal: c_int, action: Action) -> io::Result<libc::sigaction> {
    // SAFETY: a zeroed `sigaction` is valid, and `visit` is async-signal-safe: it writes to the
    // frame the kernel restores from, and to an atomic.
    unsafe {
        let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        match action {
            Action::Visit => {
                new.sa_sigaction = visit as *const () as usize;
                // The VM's system calls go on where they were.
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
            }
            Action::Restore(before) => new = before,
        }
        let mut old = MaybeUninit::zeroed();
        match libc::sigaction(signal, &new, old.as_mut_ptr()) {
            0 => Ok(old.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Runs on each thread of the VM, once: when it returns, the thread's mask is the one in the
/// frame the kernel made for it, so a change there stays.
extern "C" fn visit(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context. Signals a fault raises on its own thread
    // (SIGSEGV and such) are delivered even if blocked, as the end of the process.
    unsafe {
        let mask = &mut (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        libc::sigfillset(mask);
        for fault in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
        ] {
            libc::sigdelset(mask, fault);
        }
    }
    VISITED.fetch_add(1, Ordering::AcqRel);
}
