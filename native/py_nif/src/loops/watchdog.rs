//! Wakes `py_watchdog`, a process that sleeps while all loops rest. The first loop that begins a
//! turn then sends it one message. Called by `pulse`, and by `py_nif:watchdog_look/1`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use event_loop::Watcher;
use rustler::{Env, LocalPid};

use super::{registry, slow_turns};
use crate::atoms;
use crate::beam::forked;
use crate::beam::message;
use crate::beam::message::Sender;

static WATCHER: Watcher = Watcher::new();
/// The process that sleeps, written before it does.
static PROCESS: Mutex<Option<LocalPid>> = Mutex::new(None);

fn process() -> MutexGuard<'static, Option<LocalPid>> {
    // Only whole values are assigned, so a panic elsewhere cannot leave half of one.
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A loop has recorded that it is in a turn, after a rest. On its thread.
#[inline]
pub(super) fn loop_awake() {
    if WATCHER.sleeps() {
        wake();
    }
    slow_turns::loop_awake();
}

/// Not in a forked copy: it has no VM that could send, and another thread may have held the lock.
#[cold]
fn wake() {
    if forked::is_copy() || !WATCHER.claim_wake() {
        return;
    }
    let pid = *process();
    if let Some(pid) = pid {
        // A process that has died has a successor, which begins with a check of all loops.
        message::send(Sender::Thread, &pid, atoms::loop_awake());
    }
}

/// Whether the calling process, which has just checked all loops, can sleep until it receives
/// `loop_awake`.
pub fn may_sleep(env: Env<'_>) -> bool {
    *process() = Some(env.pid());
    WATCHER.may_sleep(|| registry::all().iter().any(|native| native.pulse.is_awake()))
}
