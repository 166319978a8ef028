//! What the process `py_calls` is told, for the log: it is the one who hears of Python code that
//! outlives its caller, and of a cast that failed.

use std::sync::{Mutex, MutexGuard};

use rustler::{Encoder, LocalPid};

use crate::beam::message::{self, Sender};

static LISTENER: Mutex<Option<LocalPid>> = Mutex::new(None);

fn listener() -> MutexGuard<'static, Option<LocalPid>> {
    // Only ever replaced whole.
    LISTENER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// `pid` is told from now on.
pub fn listen(pid: LocalPid) {
    *listener() = Some(pid);
}

/// Without a listener (the application is stopped, or restarts it) there is no log to write to.
pub fn send(sender: Sender<'_>, report: impl Encoder) {
    let pid = *listener();
    if let Some(pid) = pid {
        let _ = message::send(sender, &pid, report);
    }
}
