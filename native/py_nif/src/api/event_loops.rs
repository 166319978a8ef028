//! Loops: make one, choose its keeper, wake it, end it.

use rustler::{Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::{done_or_error, ok_or_error, Error};
use crate::loops::{registry, LoopRef, NativeLoop, Role};

#[rustler::nif]
fn event_loop_new(env: Env<'_>) -> Term<'_> {
    let made = NativeLoop::for_erlang(Sender::Scheduler(env));
    ok_or_error(env, made.map(|native| Ref::new(LoopRef(native))))
}

#[rustler::nif]
fn event_loop_destroy<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    native.0.close(Sender::Scheduler(env));
    atoms::ok().encode(env)
}

#[rustler::nif]
fn event_loop_set_router<'a>(env: Env<'a>, native: Ref<LoopRef>, pid: LocalPid) -> Term<'a> {
    set_keeper(env, &native, pid, Role::Router)
}

#[rustler::nif]
fn event_loop_set_worker<'a>(env: Env<'a>, native: Ref<LoopRef>, pid: LocalPid) -> Term<'a> {
    set_keeper(env, &native, pid, Role::Worker)
}

fn set_keeper<'a>(env: Env<'a>, native: &Ref<LoopRef>, pid: LocalPid, role: Role) -> Term<'a> {
    match native.0.adopt(Sender::Scheduler(env), pid, role, true) {
        Ok(true) => atoms::ok().encode(env),
        Ok(false) => (atoms::error(), atoms::not_alive()).encode(env),
        Err(error) => (atoms::error(), error).encode(env),
    }
}

#[rustler::nif]
fn event_loop_wakeup<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    let result = native.0.check_open().map(|()| {
        native.0.core.parking.wake();
        if let Some(mut side) = native.0.erlang_side() {
            side.wake(Sender::Scheduler(env));
        }
    });
    done_or_error(env, result)
}

#[rustler::nif]
fn event_loop_info<'a>(env: Env<'a>, native: Ref<LoopRef>) -> NifResult<Term<'a>> {
    let native = &native.0;
    if native.is_closed() {
        return Ok((atoms::error(), Error::Closed).encode(env));
    }
    let counters = native.core.counters.snapshot();
    let mut map = Term::map_new(env)
        .map_put("id", native.id)?
        .map_put("fds", native.core.watched_len() as u64)?
        .map_put("turns", counters.turns)?
        .map_put("events", counters.events)?
        .map_put("wakeups", counters.wakeups)?
        .map_put("parks", counters.parks)?
        .map_put("polls", counters.polls)?
        .map_put("timers_fired", counters.timers_fired)?
        .map_put("stale_events", counters.stale_events)?;
    if let Some(side) = native.erlang_side() {
        map = map
            .map_put("pending", side.pending.len() as u64)?
            .map_put("timers", side.timers.live_len() as u64)?;
    }
    if let Some(pid) = native.keeper_pid() {
        map = map.map_put("keeper", pid)?;
    }
    Ok((atoms::ok(), map).encode(env))
}

#[rustler::nif]
fn event_loop_count() -> u64 {
    registry::all().len() as u64
}
