//! The child processes of Python's `multiprocessing`, which end with the node.
//!
//! Python ends or joins them in an `atexit` function. `erlang:halt/1` does not wait for Python, and
//! a worker of a pool waits for work until it is terminated: so [`super::process_end`] kills the
//! remaining ones. `erlang_loop_default` has a [`ChildProcess`] for each while it runs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A pidfd for each, because a process number may have been reused.
static CHILDREN: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

fn children() -> MutexGuard<'static, Vec<OwnedFd>> {
    // Single insertions and removals: consistent also after a panic.
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called once, when the process ends.
pub fn kill_all() {
    for child in children().iter() {
        // A process that has ended needs no signal.
        let _ = pidfd_send_signal(child, Signal::KILL);
    }
}

/// A process that is killed if the node ends while this value lives.
#[pyclass(frozen, module = "erlang_loop._native")]
pub struct ChildProcess {
    pidfd: RawFd,
}

#[pymethods]
impl ChildProcess {
    #[new]
    fn new(pid: i32) -> PyResult<Self> {
        let process = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let opened = process.ok_or(Errno::INVAL);
        // Close-on-exec, as all pidfds are.
        let opened = opened.and_then(|process| pidfd_open(process, PidfdFlags::empty()));
        let child = opened.map_err(io::Error::from)?;
        let pidfd = child.as_raw_fd();
        children().push(child);
        Ok(ChildProcess { pidfd })
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        children().retain(|child| child.as_raw_fd() != self.pidfd);
    }
}
