//! Which threads receive the signals of a process that runs a command line: Python's threads, as in
//! a python process without a VM.
//!
//! The kernel delivers a signal to any thread that does not block it, preferring the process's
//! first thread, which is the VM's. Python's own handler may run on any thread, but a blocking call
//! of Python's main thread (a sleep, a read, `sigwait`) ends only if the signal is delivered to
//! that thread. So all threads of the VM block all signals. Then the main thread of Python is the
//! oldest thread that does not, and the kernel chooses it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io, ptr, thread};

/// How many threads have blocked their signals.
static VISITED: AtomicU32 = AtomicU32::new(0);

/// Ignores the signals of `mask` again: the VM has handled some of them, and `py_command` reset
/// those. So a program that was started by `nohup`, or by a shell as a background job, survives
/// them as under python.
pub fn ignore(mask: u64) {
    // SAFETY: SIGFPE, which the VM ignores, has no handler; children of Python inherit this.
    unsafe { libc::signal(libc::SIGFPE, libc::SIG_DFL) };
    for number in (1..=64).filter(|number| mask >> (number - 1) & 1 == 1) {
        // SAFETY: the constant is not a function. glibc rejects the signal numbers that it
        // reserves.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// Called on Python's main thread before Python starts. Threads that the VM starts later inherit
/// the blocked signals of the threads that start them.
pub fn take_over() -> io::Result<()> {
    // SAFETY: names the calling thread.
    let own = unsafe { libc::gettid() };
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
    // A thread takes the signal when it next runs or, if it sleeps, at once. One that has ended
    // meanwhile never does; the wait for it is limited. On a busy machine a thread may take the
    // signal late, and without a handler it would end the process: then the handler stays.
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

/// For each of our threads that runs Python: the threads and processes that it starts inherit its
/// blocked signals, and a child that blocks SIGTERM cannot be ended.
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

/// Sets the disposition of `signal` and returns the previous one.
fn install(signal: c_int, action: Action) -> io::Result<libc::sigaction> {
    // SAFETY: a zeroed `sigaction` is valid, and `visit` is async-signal-safe: it writes to the
    // frame that the kernel restores from, and to an atomic.
    unsafe {
        let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        match action {
            Action::Visit => {
                new.sa_sigaction = visit as *const () as usize;
                // The VM's interrupted system calls are restarted.
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

/// Runs on each thread of the VM, once. When it returns, the kernel restores the thread's mask from
/// the frame that it created, so a change in the frame is permanent.
extern "C" fn visit(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context. Signals that a fault raises on its own
    // thread (SIGSEGV and others) are delivered even if blocked, and end the process.
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
