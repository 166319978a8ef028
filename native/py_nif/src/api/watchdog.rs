//! For `py_watchdog`: which loops have been in one turn for how long, and where they are.

use std::sync::Arc;
use std::time::Duration;

use event_loop::now_ns;
use rustler::{Encoder, Env, LocalPid, Term};

use crate::atoms;
use crate::cpython::process::{main_thread, stacks};
use crate::error::Error;
use crate::loops::{NativeLoop, registry, watchdog};

/// `{Next | sleep, [{Id, Owner | undefined, Thread, Turn, Milliseconds, Callback, Milliseconds}]}`:
/// the loops that have been in one turn for at least that long, with the number of the running
/// callback (0: none) and how long it has been observed. `Next` is the number of milliseconds until
/// the next other loop will have been in a turn that long; `sleep` means that no loop is in a turn,
/// and that the first one that begins a turn sends the caller `loop_awake`.
#[rustler::nif]
fn watchdog_look(env: Env<'_>, threshold_ms: u64) -> Term<'_> {
    let now = now_ns();
    let limit = threshold_ms.saturating_mul(1_000_000);
    let mut next = limit;
    let mut stuck = Vec::new();
    for native in registry::all() {
        let callback = native.pulse.look(now);
        match native.pulse.awake_for(now) {
            Some(turn) if turn.1 >= limit => stuck.push(seen(env, &native, turn, callback)),
            Some((_, awake)) => next = next.min(limit - awake),
            None => {}
        }
    }
    match watchdog::may_sleep(env) {
        true => (atoms::sleep(), stuck).encode(env),
        // Rounded up, so that it is not too early.
        false => (next.div_ceil(1_000_000), stuck).encode(env),
    }
}

/// `turn` and `callback`: their numbers, and how long they have run (ns).
fn seen<'a>(
    env: Env<'a>,
    native: &Arc<NativeLoop>,
    turn: (u64, u64),
    callback: (u64, u64),
) -> Term<'a> {
    let owner = match &native.owner {
        Some(pid) => pid.encode(env),
        None => atoms::undefined().encode(env),
    };
    let thread = native.pulse.thread();
    let (turn, awake) = (turn.0, turn.1 / 1_000_000);
    let (callback, runs) = (callback.0, callback.1 / 1_000_000);
    (native.id, owner, thread, turn, awake, callback, runs).encode(env)
}

/// Prepares Python for reading its stacks; called once, before anything is stuck.
#[rustler::nif]
fn watchdog_prepare(env: Env<'_>) -> Term<'_> {
    match main_thread::is_ready() {
        true => started(env, stacks::prepare()),
        false => (atoms::error(), atoms::not_started()).encode(env),
    }
}

/// The caller receives `{py_stacks, Token, {ok, Text} | {error, Text}}`.
#[rustler::nif]
fn watchdog_stacks(env: Env<'_>, token: i64, patience_ms: u64) -> Term<'_> {
    if !main_thread::is_ready() {
        return (atoms::error(), atoms::not_started()).encode(env);
    }
    let patience = Duration::from_millis(patience_ms.min(60_000));
    started(env, stacks::send(env.pid(), token, patience))
}

/// Interrupts this callback of the loop, if it still runs.
#[rustler::nif]
fn watchdog_interrupt(env: Env<'_>, id: u64, callback: u64) -> Term<'_> {
    let Some(native) = registry::get(id).filter(|_| main_thread::is_ready()) else {
        return (atoms::error(), atoms::closed()).encode(env);
    };
    let (thread, callbacks) = (native.pulse.thread(), native.pulse.callbacks.clone());
    started(env, stacks::interrupt(thread, callbacks, callback))
}

/// The result of a function that starts a thread.
pub(super) fn started(env: Env<'_>, result: std::io::Result<()>) -> Term<'_> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(why) => (atoms::error(), Error::Python(why.to_string())).encode(env),
    }
}

/// `{ok, Turns, LongestNs, [Count]}` of the loop that `owner` started: how many turns took less
/// than 1 us, 2 us, 4 us and so on.
#[rustler::nif]
fn loop_lag(env: Env<'_>, owner: LocalPid) -> Term<'_> {
    match registry::owned_by(&owner) {
        Some(native) => {
            let lag = native.pulse.read();
            (atoms::ok(), lag.turns, lag.longest, lag.histogram).encode(env)
        }
        None => (atoms::error(), atoms::loop_down()).encode(env),
    }
}
