//! Timers of a loop driven from Erlang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use event_loop::now_ns;
use rustler::{Encoder, Env, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::Error;
use crate::loops::{LoopRef, Timer, TimerRef};

/// A thousand years: a longer delay would overflow the clock's nanoseconds.
const MAX_DELAY_MS: u64 = 1000 * 366 * 24 * 3600 * 1000;

#[rustler::nif]
fn call_later<'a>(
    env: Env<'a>,
    native: Ref<LoopRef>,
    delay_ms: u64,
    callback: u64,
) -> NifResult<Term<'a>> {
    if delay_ms > MAX_DELAY_MS {
        return Err(rustler::Error::BadArg);
    }
    let owner = &native.0;
    if owner.is_closed() {
        return Ok((atoms::error(), Error::Closed).encode(env));
    }
    let timer = Arc::new(Timer {
        callback,
        cancelled: AtomicBool::new(false),
    });
    if let Some(mut side) = owner.erlang_side() {
        side.timers
            .schedule(now_ns() + delay_ms * 1_000_000, timer.clone());
        let deadline = side.timers.next_deadline();
        owner.plan_wake(Sender::Scheduler(env), deadline);
    }
    owner.arm_if_needed(env);
    let made = Ref::new(TimerRef {
        owner: Arc::downgrade(owner),
        timer,
    });
    Ok((atoms::ok(), made).encode(env))
}

/// `ok` also for a timer that fired or was cancelled before: it will not fire.
#[rustler::nif]
fn cancel_timer<'a>(env: Env<'a>, native: Ref<LoopRef>, timer: Ref<TimerRef>) -> Term<'a> {
    if native.0.is_closed() {
        return (atoms::error(), Error::Closed).encode(env);
    }
    match timer.owner.upgrade() {
        Some(owner) if Arc::ptr_eq(&owner, &native.0) => {
            if !timer.timer.cancelled.swap(true, Ordering::AcqRel) {
                if let Some(mut side) = owner.erlang_side() {
                    side.timers.note_cancelled();
                }
            }
            atoms::ok().encode(env)
        }
        _ => (atoms::error(), atoms::stale()).encode(env),
    }
}
