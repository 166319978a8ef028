//! Log events for `py_logger`, up to a limit in its mailbox: further ones are dropped and counted,
//! as `logger` itself does when it cannot keep up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use rustler::{Env, LocalPid, OwnedEnv, Term};

use crate::beam::forked;

#[derive(Clone, Copy)]
struct Listener {
    pid: LocalPid,
    limit: usize,
}

/// None: the application is not running, or log events are not redirected.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);
/// Both Relaxed: they limit and count; no other data depends on them.
static WAITING: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

fn listener() -> MutexGuard<'static, Option<Listener>> {
    // Only ever replaced as a whole.
    LISTENER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// `pid` receives events from now on; its mailbox is empty.
pub fn listen(pid: LocalPid, limit: usize) {
    *listener() = Some(Listener { pid, limit });
    WAITING.store(0, Ordering::Relaxed);
}

pub fn stop() {
    *listener() = None;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Send it: there is room.
    Yes,
    /// It is dropped, and counted.
    Dropped,
    /// There is no receiver.
    No,
}

/// Called before an event is created. `caller`: the process that asked for the code that logs. A
/// handler of `logger` that calls Python does so in `py_logger` itself, and its own log events
/// would come back to it endlessly.
pub fn admit(caller: Option<LocalPid>) -> Admission {
    if forked::is_copy() {
        return Admission::No;
    }
    match *listener() {
        None => Admission::No,
        Some(listener) if caller == Some(listener.pid) => Admission::No,
        Some(listener) if WAITING.load(Ordering::Relaxed) >= listener.limit => {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            Admission::Dropped
        }
        Some(_) => Admission::Yes,
    }
}

/// Sends an admitted event. Returns `false` if `py_logger` has just died.
pub fn send(build: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) -> bool {
    let Some(Listener { pid, .. }) = *listener() else {
        return false;
    };
    WAITING.fetch_add(1, Ordering::Relaxed);
    OwnedEnv::new().send_and_clear(&pid, build).is_ok()
}

/// `py_logger` has handled one. Returns how many were dropped since the last time.
pub fn done() -> u64 {
    // Not below zero: the count restarted with this listener, and its predecessor's events were
    // lost with it.
    let _ = WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
        waiting.checked_sub(1)
    });
    DROPPED.swap(0, Ordering::Relaxed)
}
