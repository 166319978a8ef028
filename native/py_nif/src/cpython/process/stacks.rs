//! The stacks of Python's threads, for `py_watchdog`; also when one thread keeps the GIL.
//!
//! With the GIL it is simple: `faulthandler.dump_traceback` writes all stacks to a file. Python
//! code releases the GIL every few milliseconds, so a fraction of a second is usually enough to get
//! it. If it is not, some thread is inside a single call into C. Then the frames are read without
//! the GIL, as faulthandler does in its signal handler. But other threads may run meanwhile, and
//! inconsistent data could crash the process. So this happens in a forked copy, in which nothing
//! else runs. The copy sends itself the signal that was registered in advance, and if it crashes,
//! only the rest of its text is lost.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, ptr, thread};

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyType};
use rustler::LocalPid;

use crate::atoms;
use crate::beam::forked;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::signal;
use crate::beam::signal::Disposition;
use crate::cpython::interrupt;
use crate::cpython::interrupt::Interruptible;

/// The signal that triggers the writing of stacks, and the file.
struct Dump {
    signal: i32,
    file: File,
}

/// Locked while stacks are read without the GIL, because there is one file.
static DUMP: Mutex<Option<Dump>> = Mutex::new(None);

fn dump() -> MutexGuard<'static, Option<Dump>> {
    // Only ever replaced as a whole.
    DUMP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the signal is or is being registered. Relaxed: only the first caller continues.
static PREPARED: AtomicBool = AtomicBool::new(false);

/// Registers the signal, once, on a thread of its own that waits for the GIL.
pub fn prepare() -> std::io::Result<()> {
    match PREPARED.load(Ordering::Relaxed) {
        true => Ok(()),
        false => in_background(prepare_here),
    }
}

/// As `prepare`, but at once: while Python starts, before any call could keep the GIL.
pub fn prepare_here(py: Python<'_>) {
    if PREPARED.swap(true, Ordering::Relaxed) {
        return;
    }
    match registered(py) {
        // No Python function is called with the lock held, because it could release the GIL.
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

/// A real-time signal without a handler; the VM uses none of them.
fn free_signal() -> Option<i32> {
    (libc::SIGRTMIN() + 1..libc::SIGRTMAX())
        .rev()
        .find(|&number| signal::disposition(number) == Disposition::Default)
}

/// Skipped if Python has ended meanwhile, as it does with a command line.
fn in_background(work: impl FnOnce(Python<'_>) + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new()
        .name("python-stacks".to_owned())
        .spawn(|| Python::try_attach(work))
        .map(drop)
}

/// Sends `to` the stacks of all threads as `{py_stacks, Token, {ok, Text} | {error, Text}}`. Waits
/// up to `patience` for the GIL, then reads them without it. From any thread.
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
            // If the watchdog has died, its successor asks again.
            let _ = news;
        })
        .map(drop)
}

fn taken(patience: Duration) -> std::io::Result<String> {
    let (sender, receiver) = mpsc::channel();
    in_background(move |py| {
        // The receiver is gone if the time was up.
        let _ = sender.send(with_gil(py));
    })?;
    match receiver.recv_timeout(patience) {
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
    let fd = rustix::fs::memfd_create(c"python-stacks", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(fd))
}

fn without_gil() -> std::io::Result<String> {
    let mut guard = dump();
    let Some(dump) = guard.as_mut() else {
        return Err(std::io::Error::other(
            "One call keeps the GIL, and reading stacks without the GIL was not prepared",
        ));
    };
    dump.file.set_len(0)?;
    dump.file.rewind()?;
    in_a_copy(|| {
        // SAFETY: system calls that are allowed in a copy of a process with threads. The signal
        // goes to the calling thread, whose number the C library does not know in the copy.
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

/// Runs `look` in a copy of this process that has only the calling thread, and waits until the copy
/// ends or crashes.
fn in_a_copy(look: impl FnOnce()) -> std::io::Result<()> {
    // For the same reason as in a copy that `fork` creates: see `beam::forked`.
    let blocked = forked::block_signals();
    // SAFETY: not `fork()`, whose handlers expect more of a copy than this. The child makes system
    // calls only and ends without running a destructor; how it ends does not matter here.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    let error = std::io::Error::last_os_error();
    if child == 0 {
        signal::remove_handlers_of_vm();
    }
    forked::restore_signals(&blocked);
    match child {
        -1 => Err(error),
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

/// Waits two seconds at most: the copy might loop endlessly.
fn wait_for(child: i32) {
    for _ in 0..2000 {
        // SAFETY: asks about our child; other code that waits for all children may have reaped it.
        if unsafe { libc::waitpid(child, ptr::null_mut(), libc::WNOHANG) } != 0 {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: it existed a moment ago, and no other code waits for it by its number.
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

/// Raises `LoopStuckError` in a callback of a loop that runs on the Python thread `thread`.
pub fn interrupt(thread: u64, callbacks: Arc<Interruptible>, callback: u64) -> std::io::Result<()> {
    in_background(move |py| {
        let raised = py
            .import("erlang_loop.watchdog")
            .and_then(|module| module.getattr("LoopStuckError"))
            .and_then(|class| Ok(class.cast_into::<PyType>()?))
            .and_then(|class| interrupt::raise(&class, &callbacks, callback, thread));
        if let Err(error) = raised {
            error.write_unraisable(py, None);
        }
    })
}
