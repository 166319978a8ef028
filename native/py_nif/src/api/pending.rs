//! Taking events in Erlang: `get_pending/1` and the steps of `poll_events/2`.

use std::sync::Arc;

use event_loop::Kind;
use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::error::Error;
use crate::loops::{LoopRef, NativeLoop, PollWait, kind_atom};

#[rustler::nif]
fn get_pending<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    reply(
        env,
        asked(&native).map(|native| events(native.take_pending(env))),
    )
}

fn events(taken: Vec<(u64, Kind)>) -> Vec<(u64, rustler::Atom)> {
    taken
        .into_iter()
        .map(|(callback, kind)| (callback, kind_atom(kind)))
        .collect()
}

/// The number of pending events.
#[rustler::nif]
fn poll_nowait<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    reply(
        env,
        asked(&native).map(|native| native.pump_for_caller(env)),
    )
}

/// The number of events if there are any; else the caller is recorded as waiting, and the result
/// says for what: `wait` for `{py_poll, Token, Why}`, or `{keep, PollSet}`, also for the `{select,
/// ...}` of this set, because the loop has no other keeper.
#[rustler::nif]
fn poll_begin<'a>(env: Env<'a>, native: Ref<LoopRef>, token: i64) -> Term<'a> {
    let waiting = asked(&native)
        .and_then(|native| native.begin_waiting(env, token))
        .map(|waiting| match waiting {
            PollWait::Ready(count) => count.encode(env),
            PollWait::ForMessage => atoms::wait().encode(env),
            PollWait::AsKeeper(poll_set) => (atoms::keep(), poll_set).encode(env),
        });
    reply(env, waiting)
}

/// The caller no longer waits. `select_sent`: the message is still to come.
#[rustler::nif]
fn poll_end<'a>(env: Env<'a>, native: Ref<LoopRef>, token: i64) -> Term<'a> {
    // A loop that was closed meanwhile has forgotten its waiting processes.
    let sent = native
        .open()
        .is_ok_and(|native| native.end_waiting(env, token));
    match sent {
        true => atoms::select_sent().encode(env),
        false => atoms::ok().encode(env),
    }
}

/// A loop whose events can be polled.
fn asked(native: &LoopRef) -> Result<Arc<NativeLoop>, Error> {
    let native = native.open()?;
    match native.sends_events() {
        true => Err(Error::Callbacks),
        false => Ok(native),
    }
}

/// The bare value or `{error, Reason}`.
fn reply(env: Env<'_>, result: Result<impl Encoder, Error>) -> Term<'_> {
    match result {
        Ok(value) => value.encode(env),
        Err(error) => (atoms::error(), error).encode(env),
    }
}
