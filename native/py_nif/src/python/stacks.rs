//! Where Python's threads are, also when one of them does not let go of the GIL; for
//! `py_watchdog`.
//!
//! With the GIL it is simple: `faulthandler.dump_traceback` writes all stacks to a file. Python
//! code gives the GIL away every few milliseconds, so a fraction of a second is usually enough to
//! get it. If it is not, some thread is inside of one call into C. Then the frames are read without
//! the GIL, as faulthandler does in its signal handler, but not here: threads may run on meanwhile,
//! and what faulthandler meets then could end the process. A forked copy stands still. It sends
//! itself the signal that was registered for that when all was well, and if it does not survive
//! that, nothing is lost but the rest of its text.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, ptr, thread};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use rustler::LocalPid;

use crate::atoms;
use crate::beam::message::{self, Sender};
use crate::beam::signal::{self, Disposition};

/// The signal that has the stacks written, and the file they are written to.
struct Dump {
    signal: i32,
    file: File,
}

/// Locked while stacks are read without the GIL: there is one file.
static DUMP: Mutex<Option<Dump>> = Mutex::new(None);

fn dump() -> MutexGuard<'static, Option<Dump>> {
    // Only ever replaced whole.
    DUMP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Python's number for the calling thread.
pub fn this_thread() -> u64 {
    // SAFETY: asks the system only.
    unsafe { ffi::PyThread_get_thread_ident() as u64 }
}

/// Whether somebody registers the signal, or has done so. Relaxed: only the first is to go on.
static PREPARED: AtomicBool = AtomicBool::new(false);

/// Registers the signal, once, on a thread of its own that waits for the GIL.
pub fn prepare() -> std::io::Result<()> {
    match PREPARED.load(Ordering::Relaxed) {
        true => Ok(()),
        false => in_background(prepare_here),
    }
}

/// As `prepare`, at once: when Python starts, before any call could hold the GIL.
pub fn prepare_here(py: Python<'_>) {
    if PREPARED.swap(true, Ordering::Relaxed) {
        return;
    }
    match registered(py) {
        // Nothing of Python is called with the lock held, which could give the GIL away.
        Ok(registered) => *dump() = registered,
        Err(error) => error.write_unraisable(py, None),
    }
}

fn registered(py: Python<'_>) -> PyResult<Option<Dump>> {
    let Some(signal) = free_signal() else {
        return Ok(None);
    };
    let file = anonymous_file()?;
    let settings = [("all_threads", true), ("chain", false)].into_py_dict(py)?;
    py.import("faulthandler")?
        .getattr("register")?
        .call((signal, file.as_raw_fd()), Some(&settings))?;
    Ok(Some(Dump { signal, file }))
}

/// A real-time signal that nobody handles; the VM has none of them.
fn free_signal() -> Option<i32> {
    (libc::SIGRTMIN() + 1..libc::SIGRTMAX())
        .rev()
        .find(|&number| signal::disposition(number) == Disposition::Default)
}

/// Not done at all if Python has ended meanwhile, as it does with a command line.
fn in_background(work: impl FnOnce(Python<'_>) + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new()
        .name("python-stacks".to_owned())
        .spawn(|| Python::try_attach(work))
        .map(drop)
}

/// Tells `to` the stacks of all threads as `{py_stacks, Token, {ok, Text} | {error, Text}}`. Asks
/// for the GIL for `patience`, then reads them without it. From any thread.
pub fn send(to: LocalPid, token: i64, patience: Duration) -> std::io::Result<()> {
    thread::Builder::new()
        .name("python-stacks".to_owned())
        .spawn(move || {
            let news = match taken(patience) {
                Ok(text) => message::send(
                    Sender::Thread,
                    &to,
                    (atoms::py_stacks(), token, (atoms::ok(), text)),
                ),
                Err(why) => message::send(
                    Sender::Thread,
                    &to,
                    (atoms::py_stacks(), token, (atoms::error(), why.to_string())),
                ),
            };
            // A watchdog that died asks again when it is back.
            let _ = news;
        })
        .map(drop)
}

fn taken(patience: Duration) -> std::io::Result<String> {
    let (tell, told) = mpsc::channel();
    in_background(move |py| {
        // Nobody listens any more if the time was up.
        let _ = tell.send(with_gil(py));
    })?;
    match told.recv_timeout(patience) {
        Ok(text) => text.map_err(std::io::Error::other),
        Err(RecvTimeoutError::Timeout) => without_gil(),
        Err(RecvTimeoutError::Disconnected) => Err(std::io::Error::other("Python has ended")),
    }
}

fn with_gil(py: Python<'_>) -> Result<String, String> {
    let text = || -> PyResult<String> {
        let mut file = anonymous_file()?;
        py.import("faulthandler")?
            .call_method1("dump_traceback", (file.as_raw_fd(), true))?;
        Ok(whole(&mut file)?)
    };
    text().map_err(|error| error.to_string())
}

fn anonymous_file() -> std::io::Result<File> {
    // SAFETY: a literal for a name; the answer is a new fd or an error.
    let fd = unsafe { libc::memfd_create(c"python-stacks".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn without_gil() -> std::io::Result<String> {
    let mut guard = dump();
    let Some(dump) = guard.as_mut() else {
        return Err(std::io::Error::other(
            "Python is held by one call, and was not prepared for a look without it",
        ));
    };
    dump.file.set_len(0)?;
    dump.file.rewind()?;
    in_a_copy(|| {
        // SAFETY: system calls that a copy of a process with threads may make. The signal goes to
        // this very thread, whose number the C library does not know in the copy.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, dump.signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
            let (process, thread) = (
                libc::syscall(libc::SYS_getpid),
                libc::syscall(libc::SYS_gettid),
            );
            libc::syscall(libc::SYS_tgkill, process, thread, dump.signal);
        }
    })?;
    whole(&mut dump.file)
}

/// Runs `look` in a copy of this process that has only the calling thread, and waits for its end,
/// good or bad.
fn in_a_copy(look: impl FnOnce()) -> std::io::Result<()> {
    // SAFETY: not `fork()`, whose handlers expect more of a copy than this. The child makes system
    // calls only and ends without a destructor run; whatever ends it is nobody's business here.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    match child {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            // SAFETY: as above.
            unsafe {
                let none = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                libc::setrlimit(libc::RLIMIT_CORE, &none);
                for number in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGFPE] {
                    libc::signal(number, libc::SIG_DFL);
                }
                look();
                libc::_exit(0)
            }
        }
        child => {
            wait_for(child as i32);
            Ok(())
        }
    }
}

/// Two seconds at most: the copy might go round in circles.
fn wait_for(child: i32) {
    for _ in 0..2000 {
        // SAFETY: asks about a child of ours; another's waiting for all children may have got it.
        if unsafe { libc::waitpid(child, ptr::null_mut(), libc::WNOHANG) } != 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: it was there a moment ago, and nobody else waits for it by its number.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

fn whole(file: &mut File) -> std::io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Has `LoopStuckError` raised on the Python thread `thread`, once its Python code runs on, if
/// `still` holds when the GIL was had.
pub fn interrupt(
    thread: u64,
    still: impl FnOnce() -> bool + Send + 'static,
) -> std::io::Result<()> {
    in_background(move |py| {
        if !still() {
            return;
        }
        let class = py
            .import("erlang_loop.watchdog")
            .and_then(|module| module.getattr("LoopStuckError"));
        match class {
            Ok(class) => {
                // SAFETY: attached; a number that is no thread is looked for in vain.
                unsafe { ffi::PyThreadState_SetAsyncExc(thread as _, class.as_ptr()) };
            }
            Err(error) => error.write_unraisable(py, None),
        }
    })
}
