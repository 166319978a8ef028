//! `py_watchdog`, as loops know it: a process that sleeps while all of them rest. The first that
//! gets up sets the timer that wakes it, and clears it when it lies down again.

use std::sync::{Mutex, MutexGuard, OnceLock};

use event_loop::Vigil;
use rustler::{Env, LocalPid};

use super::registry;
use super::watchdog_timer::WatchdogTimer;
use crate::atoms;
use crate::beam::forked;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;

static VIGIL: Vigil = Vigil::new();
/// Made by the first that sleeps.
static TIMER: OnceLock<Ref<WatchdogTimer>> = OnceLock::new();
/// Who looks. Locked before `VIGIL` is, by who comes and who goes: one that died must not have the
/// last word about its successor.
static PROCESS: Mutex<Option<LocalPid>> = Mutex::new(None);

fn process() -> MutexGuard<'static, Option<LocalPid>> {
    // A single assignment: whole also after a panic.
    PROCESS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A loop of `party` has noted that it is in a turn, after a rest. On its thread.
#[inline]
pub(super) fn loop_got_up(party: u64) {
    if VIGIL.is_roused_by(party) {
        rouse(party);
    }
}

/// Not in a forked copy, which shares the timer with the node, and whose locks nobody may hold.
#[cold]
fn rouse(party: u64) {
    if forked::is_copy() {
        return;
    }
    if let Some(timer) = TIMER.get()
        && VIGIL.rouse(party, &**timer)
    {
        call();
    }
}

/// There is no descriptor for a timer, or the VM does not watch it.
#[cold]
fn call() {
    let pid = *process();
    if let Some(pid) = pid {
        // A process that died has a successor, which begins with a look.
        message::send(Sender::Thread, &pid, atoms::loop_awake());
    }
}

/// The thread of `party` is about to sleep: none of its loops is in a turn.
pub(super) fn party_lies_down(party: u64) {
    if forked::is_copy() {
        return;
    }
    if let Some(timer) = TIMER.get() {
        VIGIL.lies_down(party, &**timer);
    }
}

/// Whether the calling process, which has just looked, need not look again before it gets
/// `{select, _, undefined, ready_input}` or `loop_awake`: not before a loop can have been in a turn
/// for `patience` (ns).
pub fn may_sleep(env: Env<'_>, patience: u64) -> bool {
    let timer = TIMER.get_or_init(|| Ref::new(WatchdogTimer::default()));
    let pid = env.pid();
    if process().replace(pid) != Some(pid) {
        // A caller is alive, and so will be told of.
        let _ = timer.monitor(Sender::Scheduler(env), &pid);
    }
    WatchdogTimer::wakes(timer, env, &pid, patience);
    let any_up = || registry::all().iter().any(|native| native.pulse.is_awake());
    VIGIL.may_sleep(any_up, &**timer)
}

/// `pid` looks no more. Its successor will; until then, there is nobody to be woken.
pub(super) fn process_died(pid: &LocalPid) {
    let mut process = process();
    if let Some(timer) = TIMER.get().filter(|_| process.as_ref() == Some(pid)) {
        *process = None;
        VIGIL.looks(&**timer);
    }
}
