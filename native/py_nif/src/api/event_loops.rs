//! Loops: create one, choose its keeper, wake it, end it.

use rustler::{Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::{done_or_error, ok_or_error};
use crate::loops::{LoopRef, NativeLoop, Receiver, Role, registry};

#[rustler::nif]
fn event_loop_new(env: Env<'_>) -> Term<'_> {
    let made = NativeLoop::for_erlang(Sender::Scheduler(env), None);
    ok_or_error(env, made.map(|native| Ref::new(LoopRef::to(&native))))
}

/// Its events are sent to `receiver`, on behalf of the caller.
#[rustler::nif]
fn event_loop_new_for<'a>(env: Env<'a>, receiver: LocalPid) -> Term<'a> {
    let receiver = Receiver {
        pid: receiver,
        owner: env.pid(),
    };
    let made = NativeLoop::for_erlang(Sender::Scheduler(env), Some(receiver));
    ok_or_error(env, made.map(|native| Ref::new(LoopRef::to(&native))))
}

#[rustler::nif]
fn event_loop_destroy<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    if let Ok(native) = native.open() {
        native.close(Sender::Scheduler(env));
    }
    atoms::ok().encode(env)
}

#[rustler::nif]
fn event_loop_set_router<'a>(
    env: Env<'a>,
    native: Ref<LoopRef>,
    pid: LocalPid,
) -> NifResult<Term<'a>> {
    set_keeper(env, &native, pid, Role::Router)
}

#[rustler::nif]
fn event_loop_set_worker<'a>(
    env: Env<'a>,
    native: Ref<LoopRef>,
    pid: LocalPid,
) -> NifResult<Term<'a>> {
    set_keeper(env, &native, pid, Role::Worker)
}

fn set_keeper<'a>(
    env: Env<'a>,
    native: &Ref<LoopRef>,
    pid: LocalPid,
    role: Role,
) -> NifResult<Term<'a>> {
    let native = match native.open() {
        Ok(native) => native,
        Err(error) => return Ok((atoms::error(), error).encode(env)),
    };
    // A loop that belongs to a process ends with that process, so it cannot be given away.
    if native.owner.is_some() {
        return Err(rustler::Error::BadArg);
    }
    Ok(
        match native.adopt(Sender::Scheduler(env), pid, role, true) {
            Ok(true) => atoms::ok().encode(env),
            Ok(false) => (atoms::error(), atoms::not_alive()).encode(env),
            Err(error) => (atoms::error(), error).encode(env),
        },
    )
}

#[rustler::nif]
fn event_loop_wakeup<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    let result = native.open().map(|native| {
        native.core.parking.wake();
        if let Some(mut side) = native.erlang_side() {
            side.wake(Sender::Scheduler(env));
        }
    });
    done_or_error(env, result)
}

#[rustler::nif]
fn event_loop_info<'a>(env: Env<'a>, native: Ref<LoopRef>) -> NifResult<Term<'a>> {
    Ok(match native.open() {
        Ok(native) => (atoms::ok(), info(env, &native)?).encode(env),
        Err(error) => (atoms::error(), error).encode(env),
    })
}

fn info<'a>(env: Env<'a>, native: &NativeLoop) -> NifResult<Term<'a>> {
    let pending = native.pump(env);
    let counters = native.core.counters.snapshot();
    let keeper = native
        .keeper_pid()
        .map_or_else(|| atoms::undefined().encode(env), |pid| pid.encode(env));
    let mut map = Term::map_new(env)
        .map_put(atoms::id(), native.id)?
        .map_put(atoms::keeper(), keeper)?
        .map_put(atoms::fds(), native.core.watched_len())?
        .map_put(atoms::turns(), counters.turns)?
        .map_put(atoms::events(), counters.events)?
        .map_put(atoms::wakeups(), counters.wakeups)?
        .map_put(atoms::parks(), counters.parks)?
        .map_put(atoms::polls(), counters.polls)?
        .map_put(atoms::timers_fired(), counters.timers_fired)?
        .map_put(atoms::stale_events(), counters.stale_events)?;
    if let Some(side) = native.erlang_side() {
        map = map
            .map_put(atoms::pending(), pending)?
            .map_put(atoms::timers(), side.timers.live_len())?;
    }
    Ok(map)
}

#[rustler::nif]
fn event_loop_count() -> u64 {
    registry::all().len() as u64
}
