//! For `py_watchdog`: which loops have been in one turn for how long, and where they are.

use std::sync::Arc;
use std::time::Duration;

use event_loop::now_ns;
use rustler::{Encoder, Env, LocalPid, Term};

use crate::atoms;
use crate::error::Error;
use crate::loops::{registry, watchdog, NativeLoop};
use crate::python::{main_thread, stacks};

/// `{Next | sleep, [{Id, Owner | undefined, Thread, Turn, Milliseconds}]}`: the loops that have
/// been in one turn for so long; and in how many milliseconds the next of the others will have, or
/// that the caller will be sent `{select, _, undefined, ready_input}` or `loop_awake` in time.
#[rustler::nif]
fn watchdog_look(env: Env<'_>, threshold_ms: u64) -> Term<'_> {
    let now = now_ns();
    let limit = threshold_ms.saturating_mul(1_000_000);
    let mut next = limit;
    let mut stuck = Vec::new();
    for native in registry::all() {
        match native.pulse.awake_for(now) {
            Some((turn, awake)) if awake >= limit => stuck.push(seen(env, &native, turn, awake)),
            Some((_, awake)) => next = next.min(limit - awake),
            None => {}
        }
    }
    match watchdog::may_sleep(env, limit) {
        true => (atoms::sleep(), stuck).encode(env),
        // Rounded up: not a moment too early.
        false => (next.div_ceil(1_000_000), stuck).encode(env),
    }
}

fn seen<'a>(env: Env<'a>, native: &Arc<NativeLoop>, turn: u64, awake: u64) -> Term<'a> {
    let owner = match &native.owner {
        Some(pid) => pid.encode(env),
        None => atoms::undefined().encode(env),
    };
    let thread = native.pulse.thread();
    (native.id, owner, thread, turn, awake / 1_000_000).encode(env)
}

/// Python is made ready for a look at its stacks; once, while all is well.
#[rustler::nif]
fn watchdog_prepare(env: Env<'_>) -> Term<'_> {
    match main_thread::is_ready() {
        true => started(env, stacks::prepare()),
        false => (atoms::error(), atoms::not_started()).encode(env),
    }
}

/// `{py_stacks, Token, {ok, Text} | {error, Text}}` comes to the caller.
#[rustler::nif]
fn watchdog_stacks(env: Env<'_>, token: i64, patience_ms: u64) -> Term<'_> {
    if !main_thread::is_ready() {
        return (atoms::error(), atoms::not_started()).encode(env);
    }
    let patience = Duration::from_millis(patience_ms.min(60_000));
    started(env, stacks::send(env.pid(), token, patience))
}

/// Has the thread of the loop interrupted, if it is in that turn still.
#[rustler::nif]
fn watchdog_interrupt(env: Env<'_>, id: u64, turn: u64) -> Term<'_> {
    let Some(native) = registry::get(id).filter(|_| main_thread::is_ready()) else {
        return (atoms::error(), atoms::closed()).encode(env);
    };
    let thread = native.pulse.thread();
    let still = move || native.pulse.is_to_be_interrupted(turn, now_ns());
    started(env, stacks::interrupt(thread, still))
}

fn started(env: Env<'_>, result: std::io::Result<()>) -> Term<'_> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(why) => (atoms::error(), Error::Python(why.to_string())).encode(env),
    }
}

/// `{ok, Turns, LongestNs, [Count]}` of the loop that `owner` started: how many turns took below
/// 1 us, 2 us, 4 us and so on.
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
