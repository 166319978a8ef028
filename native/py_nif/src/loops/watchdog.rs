//! `py_watchdog`, as loops know it: a process that sleeps while all of them rest, and is called by
//! the first that does not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use event_loop::Vigil;
use rustler::LocalPid;

use super::registry;
use crate::atoms;
use crate::beam::forked;
use crate::beam::message::{self, Sender};

static VIGIL: Vigil = Vigil::new();
/// How many turns all loops had had at its last look.
static TURNS: AtomicU64 = AtomicU64::new(0);
/// Whom to call.
static PROCESS: Mutex<Option<LocalPid>> = Mutex::new(None);

fn process() -> MutexGuard<'static, Option<LocalPid>> {
    // A single assignment: whole also after a panic.
    PROCESS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A loop has noted that it is in a turn, after a rest. On its thread.
#[inline]
pub(super) fn loop_got_up() {
    if VIGIL.got_up() {
        call();
    }
}

#[cold]
fn call() {
    if forked::is_copy() {
        return;
    }
    let pid = *process();
    if let Some(pid) = pid {
        // A process that died has a successor, which begins with a look.
        message::send(Sender::Thread, &pid, atoms::loop_awake());
    }
}

/// Whether the calling process, which has just looked, need not look again before it is told
/// `loop_awake`. Not while loops have turns now and then: a look costs less than a call.
pub fn may_sleep(caller: LocalPid) -> bool {
    *process() = Some(caller);
    let loops = registry::all();
    let turns = loops.iter().map(|native| native.pulse.turns()).sum();
    let lately = TURNS.swap(turns, Ordering::Relaxed) != turns;
    VIGIL.may_sleep(|| lately || registry::all().iter().any(|native| native.pulse.is_awake()))
}
