//! The child processes of Python's `multiprocessing`, which end with the node.
//!
//! Python ends or joins them in an `atexit` function. `erlang:halt/1` does not wait for Python, and
//! a worker of a pool waits for work until it is terminated: so [`super::process_end`] kills the
//! remaining ones. `erlang_loop_default` has a [`ChildProcess`] for each while it runs.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, ptr};

use pyo3::prelude::*;

/// A pidfd for each, because a process number may have been reused.
static CHILDREN: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

fn children() -> MutexGuard<'static, Vec<OwnedFd>> {
    // Single insertions and removals: consistent also after a panic.
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called once, when the process ends.
pub fn kill_all() {
    for child in children().iter() {
        // SAFETY: one of our fds, no additional information. A process that has ended needs no
        // signal.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                child.as_raw_fd(),
                libc::SIGKILL,
                ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
    }
}

/// A process that is killed if the node ends while this value lives.
#[pyclass(frozen, module = "erlang_loop._native")]
pub struct ChildProcess {
    pidfd: i32,
}

#[pymethods]
impl ChildProcess {
    #[new]
    fn new(pid: i32) -> PyResult<Self> {
        // SAFETY: the result is a new fd, close-on-exec, or an error.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
        if pidfd < 0 {
            return Err(io::Error::last_os_error().into());
        }
        // SAFETY: the fd is new and has no other owner.
        children().push(unsafe { OwnedFd::from_raw_fd(pidfd) });
        Ok(ChildProcess { pidfd })
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        children().retain(|child| child.as_raw_fd() != self.pidfd);
    }
}
