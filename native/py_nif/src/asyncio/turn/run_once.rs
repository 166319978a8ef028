//! A turn of the loop, as `_run_once` of asyncio: timeout, wait, take, run. Everything depends on it;
//! keep it short.

use std::sync::Arc;

use event_loop::{Ready, now_ns};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::item;
use super::priorities;
use super::wait_steps::WaitSteps;
use crate::asyncio::handles::ready::Item;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::loop_clock;
use crate::asyncio::loop_class::loop_signals;
use crate::cpython::errors;
use crate::loops::NativeLoop;
use crate::loops::recorder::Kind;

/// asyncio never sleeps longer than a day at once; nor do we, so that a clock that jumps (a
/// suspended machine) is read again.
const LONGEST_WAIT_NS: u64 = 24 * 3600 * 1_000_000_000;

/// What the flight recorder keeps of turns and waits.
const LONG_TURN_NS: u64 = 1_000_000;
const LONG_GIL_WAIT_NS: u64 = 100_000;

/// How long a turn waits for something to run.
#[derive(Clone, Copy)]
enum Timeout {
    /// It only polls the fds.
    Zero,
    /// Until this time of the system's clock.
    Until(u64),
    Forever,
}

pub fn run(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_once(slf, true)
}

/// As [`run`], but never waits: the thread has other loops to run.
pub fn run_nowait(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_once(slf, false)
}

fn run_once(slf: &Bound<'_, Loop>, may_wait: bool) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    // Written outside callbacks: before the loop ran, or between two turns that a program runs itself.
    item::send_unsent(slf)?;
    if this.priorities.any.get(py) {
        priorities::begin_turn(slf)?;
    }
    let now = now_ns();
    turned(this, py, now);
    let busy = is_busy(slf);
    let timeout = match may_wait && !busy {
        true => timeout(slf, now)?,
        false => Timeout::Zero,
    };
    wait(slf, now, timeout)?;
    if !busy {
        check_after_wait(slf)?;
    }
    take_signals_and_requests(slf)?;
    take_due_timers(slf)?;
    run_ready(slf)
}

/// The turn before has ended.
#[inline]
fn turned(this: &Loop, py: Python<'_>, now: u64) {
    this.with_native(py, |native| {
        let took = now.saturating_sub(native.pulse.since());
        if took >= LONG_TURN_NS && took != now {
            native.recorder.record(Kind::Turn, now, took);
        }
        native.pulse.turned(now);
        true
    });
}

/// Whether this turn has something to run, or is the last.
fn is_busy(slf: &Bound<'_, Loop>) -> bool {
    let py = slf.py();
    let this = slf.get();
    this.state.stopping.get(py)
        || this.ready.with(py, |ready| !ready.is_empty())
        || this.priorities.any.get(py)
}

/// How long to wait at the time `now`: until the next timer is due.
fn timeout(slf: &Bound<'_, Loop>, now: u64) -> PyResult<Timeout> {
    let py = slf.py();
    let this = slf.get();
    if this.waiting.before_sleep.replace(py, false) {
        // The call may have made something ready: this turn polls, but does not sleep.
        slf.call_method0("_before_sleep")?;
        return Ok(Timeout::Zero);
    }
    let clock = loop_clock::of_program(slf)?.unwrap_or(now);
    let (deadline, discarded) = this.timers.heap.with(py, |timers| {
        this.with_pulse(py, |pulse| pulse.load.keeps(timers.len()));
        (timers.next_deadline_by(clock), timers.take_discarded())
    });
    drop(discarded);
    Ok(match deadline {
        None => Timeout::Forever,
        Some(deadline) if deadline <= clock => Timeout::Zero,
        Some(deadline) => {
            Timeout::Until(now.saturating_add((deadline - clock).min(LONGEST_WAIT_NS)))
        }
    })
}

/// Waits until an fd is ready or `timeout` is over, and queues the callbacks of ready fds behind
/// those that already wait.
fn wait(slf: &Bound<'_, Loop>, now: u64, timeout: Timeout) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let native = this.native(py)?;
    if let Some(requests) = &native.requests {
        requests.monitor_callers_if_due(now);
    }
    let Some(mut steps) = this.waiting.steps.replace(py, None) else {
        return Err(PyRuntimeError::new_err(
            "This event loop is already running",
        ));
    };
    let result = match timeout {
        Timeout::Zero => steps.poll(&native),
        Timeout::Until(_) | Timeout::Forever => {
            this.waiting.since.set(py, now);
            let result = wait_detached(py, &native, &mut steps, timeout);
            let woke = native.pulse.since();
            let now = now_ns();
            let waited = now.saturating_sub(woke);
            native.pulse.load.waited_for_gil(waited);
            if waited >= LONG_GIL_WAIT_NS {
                native.recorder.record(Kind::GilWait, now, waited);
            }
            result
        }
    };
    queue_ready_fds(slf, &mut steps.ready);
    this.waiting.steps.replace(py, Some(steps));
    result.map_err(errors::raised)
}

/// Waits without Python. The turn counts as awake before the thread asks for the GIL: waiting for a
/// thread that keeps the GIL means being blocked, and the watchdog must see it.
fn wait_detached(
    py: Python<'_>,
    native: &Arc<NativeLoop>,
    steps: &mut WaitSteps,
    timeout: Timeout,
) -> crate::error::Result<()> {
    let deadline = match timeout {
        Timeout::Until(deadline) => Some(deadline),
        Timeout::Zero | Timeout::Forever => None,
    };
    py.detach(|| {
        native.pulse.rests();
        let result = steps.wait(native, deadline);
        native.pulse.begins(now_ns());
        result
    })
}

fn queue_ready_fds(slf: &Bound<'_, Loop>, events: &mut Vec<Ready>) {
    let py = slf.py();
    let this = slf.get();
    if events.is_empty() {
        return;
    }
    this.files.fds.with(py, |fds| {
        this.ready.with(py, |queue| {
            for event in events.drain(..) {
                this.record(py, Kind::Fd, u64::from(event.fd.unsigned_abs()));
                fds.ready(py, &event, queue);
            }
        });
    });
}

/// Python's signal handlers run here, as after a `select()` in Python.
fn check_after_wait(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    py.check_signals()?;
    let orphaned = slf.get().with_native(py, |native| native.is_orphaned());
    match orphaned && slf.get().served().is_none() {
        true => Err(PyRuntimeError::new_err(
            "the py_event_worker of this isolated loop died",
        )),
        false => Ok(()),
    }
}

/// Takes what other threads and Erlang have left for the loop.
fn take_signals_and_requests(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let this = slf.get();
    let (mut signals, mut posts) = (false, false);
    this.with_native(slf.py(), |native| {
        (signals, posts) = (native.signals.any(), !native.posts.is_empty());
        true
    });
    if signals {
        loop_signals::take(slf)?;
    }
    if let Some(served) = this.served() {
        (served.take_requests)(slf)?;
    }
    if posts {
        take_posts(slf)?;
    }
    Ok(())
}

/// Completes futures with replies from Erlang.
fn take_posts(slf: &Bound<'_, Loop>) -> PyResult<()> {
    for posted in slf.get().native(slf.py())?.posts.take() {
        posted.arrived(slf.py());
    }
    Ok(())
}

/// Queues the timers that are due, earliest first.
fn take_due_timers(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let own = loop_clock::of_program(slf)?;
    let discarded = this.timers.heap.with(py, |timers| {
        this.with_pulse(py, |pulse| pulse.load.keeps(timers.len()));
        if timers.is_empty() {
            return None;
        }
        let now = own.unwrap_or_else(now_ns);
        this.ready.with(py, |queue| {
            let before = queue.len();
            timers.take_due(now, |timer| {
                timer.0.get().set_scheduled(false);
                queue.push_back(Item::Callback(timer.0));
            });
            if queue.len() > before {
                this.record(py, Kind::Timers, (queue.len() - before) as u64);
            }
        });
        Some(timers.take_discarded())
    });
    drop(discarded);
    Ok(())
}

/// Runs what is ready now; callbacks added meanwhile wait for the next turn.
fn run_ready(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let count = this.ready.with(py, |ready| ready.len());
    this.with_pulse(py, |pulse| pulse.load.runs(count));
    let limit = this.callbacks.threshold.get(py);
    for _ in 0..count {
        let Some(item) = this.ready.with(py, |ready| ready.pop_front()) else {
            // A callback closed the loop.
            break;
        };
        item::run(slf, item, limit)?;
        if this.priorities.any.get(py) {
            priorities::after_callback(slf)?;
        }
    }
    match this.priorities.any.get(py) {
        false => Ok(()),
        true => priorities::end_of_turn(slf),
    }
}

/// Runs what was queued last, now: the first step of a task that Erlang asked for.
pub fn run_last(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let Some(item) = this.ready.with(py, |ready| ready.pop_back()) else {
        return Ok(());
    };
    item::run(slf, item, this.callbacks.threshold.get(py))?;
    match this.priorities.any.get(py) {
        false => Ok(()),
        true => priorities::after_callback(slf),
    }
}
