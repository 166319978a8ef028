//! A thread that runs calls, one after another.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use event_loop::{SpinBudget, WaitPolicy, now_ns};

use super::QueuedCall;
use super::call_thread::CallThread;
use super::outside;
use super::pool::Pool;
use crate::cpython::process::finalizing;
use crate::cpython::sampling::PythonThread;
use crate::cpython::spin_wait;

/// A caller makes its next call some 10 us after a reply. With many callers the queue is rarely
/// empty, and a longer spin would only keep the CPU from their schedulers.
const SPIN: WaitPolicy = WaitPolicy {
    spin_start_ns: 10_000,
    spin_max_ns: 20_000,
    short_ns: 200_000,
    direct_ns: 0,
    near_timer_ns: 0,
    own_timer_ns: 0,
    beam_margin_ns: 0,
};
/// How long a thread that is not needed sleeps before it ends.
const IDLE: Duration = Duration::from_secs(3);

/// Attached once for the life of the thread, so that Python keeps its thread state; it waits
/// detached.
pub fn run(pool: &'static Pool) {
    finalizing::attach(|py| {
        let this = CallThread::begin(PythonThread::this(py));
        outside::this_is_a_call_thread(pool, this.clone());
        pool.lock().all.push(this.clone());
        let mut habit = SpinBudget::new(&SPIN);
        loop {
            while let Some(queued) = next(pool, &this) {
                queued.run(py);
            }
            if !py.detach(|| wait(pool, &mut habit)) {
                pool.lock().all.retain(|one| !Arc::ptr_eq(one, &this));
                return;
            }
        }
    });
}

fn next(pool: &'static Pool, this: &CallThread) -> Option<QueuedCall> {
    let queued = pool.take();
    let request = queued.as_ref().map(|queued| queued.request().clone());
    if this.switch_to(request) {
        pool.note_progress(&mut pool.lock());
    }
    queued
}

/// Waits for a call. Returns `false` if none came for a while: this thread must end.
fn wait(pool: &'static Pool, habit: &mut SpinBudget) -> bool {
    let since = now_ns();
    if habit.budget() > 0 && spin_wait::spin(habit, since, || !pool.is_empty()) {
        return true;
    }
    let mut state = pool.lock();
    pool.remove_ready();
    if !pool.is_empty() {
        pool.add_ready();
        return true;
    }
    let this = thread::current();
    state.idle.push(this.clone());
    state.is_reported = false;
    loop {
        let stays = state.threads <= pool.keeps;
        drop(state);
        let began = Instant::now();
        match stays {
            true => thread::park(),
            false => thread::park_timeout(IDLE),
        }
        state = pool.lock();
        let Some(place) = state.idle.iter().rposition(|one| one.id() == this.id()) else {
            // The thread that removed it counts us as ready.
            habit.note_wait(now_ns().saturating_sub(since));
            return true;
        };
        if began.elapsed() >= IDLE && state.threads > pool.keeps {
            state.idle.remove(place);
            state.threads -= 1;
            return false;
        }
    }
}
