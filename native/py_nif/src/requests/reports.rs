//! Reports to the process `py_calls`, for the log: about Python code that outlives its caller, and
//! about a cast that failed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use event_loop::now_ns;
use rustler::{Encoder, LocalPid};

use super::request::Request;
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;

static LISTENER: Mutex<Option<LocalPid>> = Mutex::new(None);

fn listener() -> MutexGuard<'static, Option<LocalPid>> {
    // Only ever replaced as a whole.
    LISTENER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// `pid` receives reports from now on.
pub fn listen(pid: LocalPid) {
    *listener() = Some(pid);
    CALLERS_ARE_CHECKED.store(false, Ordering::Relaxed);
}

/// `py_calls` will check the callers of the calls that run. Relaxed: it does so again, later.
static CALLERS_ARE_CHECKED: AtomicBool = AtomicBool::new(false);

/// A call was submitted whose caller is not monitored: `py_calls` checks soon whether it still runs.
pub fn unmonitored(sender: Sender<'_>) {
    if !CALLERS_ARE_CHECKED.load(Ordering::Relaxed) {
        CALLERS_ARE_CHECKED.store(true, Ordering::Relaxed);
        send(sender, atoms::calls_begun());
    }
}

/// `py_calls` checks now: it receives a message about later calls.
pub fn checks_callers() {
    CALLERS_ARE_CHECKED.store(false, Ordering::Relaxed);
}

/// Without a listener (the application is stopped or restarting) there is no log to write to.
pub fn send(sender: Sender<'_>, report: impl Encoder) {
    let pid = *listener();
    if let Some(pid) = pid {
        let _ = message::send(sender, &pid, report);
    }
}

/// Calls wait for threads, which run these requests, each with Python's number for its thread.
pub fn threads_taken(threads: usize, waiting: usize, calls: Vec<(Ref<Request>, u64)>) {
    let now = now_ns();
    let calls: Vec<_> = (calls.iter())
        .map(|(request, thread)| {
            let (caller, began) = request.runs_for();
            let ms = now.saturating_sub(began) / 1_000_000;
            (&*request.name, caller, ms, *thread)
        })
        .collect();
    send(
        Sender::Thread,
        (atoms::threads_taken(), threads, waiting, calls),
    );
}
