//! Taking events in Erlang: `get_pending/1` and the two halves of `poll_events/2`.

use event_loop::Kind;
use rustler::{Encoder, Env, NifResult, Term};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::error::Error;
use crate::loops::LoopRef;

#[rustler::nif]
fn get_pending<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    let native = &native.0;
    if native.is_closed() {
        return (atoms::error(), Error::Closed).encode(env);
    }
    native.pump(env);
    let taken = native
        .erlang_side()
        .map(|mut side| side.pending.take())
        .unwrap_or_default();
    native.arm_if_needed(env);
    taken
        .into_iter()
        .map(|(callback, kind)| {
            let kind = match kind {
                Kind::Read => atoms::read(),
                Kind::Write => atoms::write(),
                Kind::Timer => atoms::timer(),
            };
            (callback, kind)
        })
        .collect::<Vec<_>>()
        .encode(env)
}

/// The number of events if there are any; else the caller is noted as waiting and told how:
/// `wait` for `{py_poll, Token}`, or `wait_self`, with the loop's `{select, ...}` coming to the
/// caller because the loop has no keeper.
#[rustler::nif]
fn poll_begin<'a>(env: Env<'a>, native: Ref<LoopRef>, token: i64) -> Term<'a> {
    let native = &native.0;
    if native.is_closed() {
        return (atoms::error(), Error::Closed).encode(env);
    }
    let count = native.pump(env);
    let waits = native.erlang_side().is_some_and(|mut side| {
        let waits = count == 0 && !side.take_woken();
        if waits {
            side.add_waiter(env.pid(), token);
        }
        waits
    });
    if !waits {
        return count.encode(env);
    }
    if native.keeper_pid().is_some() {
        native.arm_if_needed(env);
        atoms::wait().encode(env)
    } else {
        native.arm_for_caller(env);
        atoms::wait_self().encode(env)
    }
}

/// The caller waits no longer. Answers the number of events.
#[rustler::nif]
fn poll_end<'a>(env: Env<'a>, native: Ref<LoopRef>, token: i64) -> NifResult<Term<'a>> {
    let native = &native.0;
    if let Some(mut side) = native.erlang_side() {
        side.remove_waiter(token);
    }
    if native.is_closed() {
        return Ok((atoms::error(), Error::Closed).encode(env));
    }
    Ok(native.pump(env).encode(env))
}
