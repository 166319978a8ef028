//! Timers of a loop driven from Erlang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use event_loop::now_ns;
use rustler::{Env, Term};

use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::{Error, done_or_error, ok_or_error};
use crate::loops::{LoopRef, NativeLoop, Timer, TimerRef};

#[rustler::nif]
fn call_later<'a>(env: Env<'a>, native: Ref<LoopRef>, delay_ms: u64, callback: u64) -> Term<'a> {
    let made = native
        .open()
        .map(|owner| schedule(env, &owner, delay_ms, callback));
    ok_or_error(env, made)
}

fn schedule(env: Env<'_>, owner: &Arc<NativeLoop>, delay_ms: u64, callback: u64) -> Ref<TimerRef> {
    // The clock ends after 584 years; later deadlines are set to that.
    let deadline = now_ns().saturating_add(delay_ms.saturating_mul(1_000_000));
    let timer = Arc::new(Timer {
        callback,
        cancelled: AtomicBool::new(false),
    });
    if let Some(mut side) = owner.erlang_side() {
        side.timers.schedule(deadline, timer.clone());
        let next = side.timers.next_deadline();
        owner.plan_wake(Sender::Scheduler(env), next);
    }
    owner.arm_if_needed(env);
    Ref::new(TimerRef {
        owner: Arc::downgrade(owner),
        timer,
    })
}

/// `ok` also for a timer that fired or was cancelled before: it will not fire.
#[rustler::nif]
fn cancel_timer<'a>(env: Env<'a>, native: Ref<LoopRef>, timer: Ref<TimerRef>) -> Term<'a> {
    let cancelled = native.open().and_then(|owner| {
        if !std::ptr::eq(timer.owner.as_ptr(), Arc::as_ptr(&owner)) {
            return Err(Error::Core(event_loop::Error::Stale));
        }
        if !timer.timer.cancelled.swap(true, Ordering::AcqRel)
            && let Some(mut side) = owner.erlang_side()
        {
            side.timers.note_cancelled();
        }
        Ok(())
    });
    done_or_error(env, cancelled)
}
