//! A turn of the loop: timeout, wait, take, run. The heart of everything; keep it short.

use std::sync::Arc;

use event_loop::{now_ns, Direction, Ready};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::between;
use super::blocking;
use super::collector;
use super::errors;
use super::fd_callbacks::Watcher;
use super::handle::Handle;
use super::loop_class::Loop;
use super::loop_clock;
use super::loop_requests;
use super::loop_signals;
use super::ready::{Item, ReadyQueue};
use super::sock_operation::SockOperation;
use super::transports::{StreamTransport, Transport};
use super::waiting::{Waiting, LOOK_EVERY_NS};
use crate::loops::NativeLoop;

/// About a microsecond.
const SHORT_TICKS: u64 = 2048;

/// asyncio never sleeps longer than a day at once; nor do we, so that a clock that jumps (a
/// suspended machine) is looked at again.
const LONGEST_WAIT_NS: u64 = 24 * 3600 * 1_000_000_000;

pub fn run(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_turn(slf, true)
}

/// As [`run`], but never waits: the thread has other loops to run.
pub fn run_nowait(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_turn(slf, false)
}

fn run_turn(slf: &Bound<'_, Loop>, block: bool) -> PyResult<()> {
    // Written outside of any callback: before the loop ran, or between two turns by hand.
    flush(slf)?;
    if slf.get().between.get(slf.py()) {
        between::begin_turn(slf)?;
    }
    wait(slf, block)?;
    let (mut signals, mut posts) = (false, false);
    slf.get().with_native(slf.py(), |native| {
        (signals, posts) = (native.signals.any(), !native.posts.is_empty());
        true
    });
    if signals {
        loop_signals::take(slf)?;
    }
    if slf.get().served {
        loop_requests::take(slf)?;
    }
    if posts {
        take_posts(slf)?;
    }
    take_due(slf)?;
    run_ready(slf)
}

/// Looks at the fds, or waits for them if there is nothing to run.
fn wait(slf: &Bound<'_, Loop>, mut may_block: bool) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let busy = this.stopping.get(py)
        || this.ready.with(py, |ready| !ready.is_empty())
        || this.between.get(py);
    if busy && turned_at_once(slf) {
        return Ok(());
    }
    let now = now_ns();
    this.with_pulse(py, |pulse| pulse.turned(now));
    let looked_lately = !this.stopping.get(py) && now - this.last_look.get(py) < LOOK_EVERY_NS;
    if busy && looked_lately {
        return Ok(());
    }
    if !busy && may_block && this.before_sleep.replace(py, false) {
        // What it does may have made something ready: this turn looks, but does not sleep.
        slf.call_method0("_before_sleep")?;
        may_block = false;
    }
    let clock = match busy || !may_block {
        true => now,
        false => loop_clock::of_program(slf)?.unwrap_or(now),
    };
    let native = this.native(py)?;
    native.requests.listen_in_time(now);
    let Some(mut waiting) = this.waiting.replace(py, None) else {
        return Err(PyRuntimeError::new_err(
            "This event loop is already running",
        ));
    };
    let early = waiting.early(&native);
    let result = match busy || early || !may_block {
        true if early && looked_lately => Ok(()),
        true => waiting.look(&native),
        false => block(slf, &native, &mut waiting, now, clock),
    };
    take_events(slf, &mut waiting.ready);
    let woken = now_ns();
    if !(early && looked_lately) {
        this.last_look.set(py, woken);
    }
    if busy {
        native.pulse.begins(woken);
    }
    this.waiting.replace(py, Some(waiting));
    result.map_err(errors::raised)?;
    if !busy {
        // Signal handlers of Python run on this occasion, as after a `select()` in Python.
        py.check_signals()?;
        if native.is_orphaned() && !this.served {
            return Err(PyRuntimeError::new_err(
                "the py_event_worker of this isolated loop died",
            ));
        }
    }
    Ok(())
}

/// Whether this turn begins so soon after one that read the clock that it need not read it again:
/// that takes a tenth of the time of a short turn.
#[inline]
fn turned_at_once(slf: &Bound<'_, Loop>) -> bool {
    let py = slf.py();
    let this = slf.get();
    let ticks = event_loop::ticks();
    let at_once = ticks.wrapping_sub(this.last_clocked.get(py)) < SHORT_TICKS
        && !this.stopping.get(py)
        && this.with_native(py, |native| native.pulse.turned_at_once());
    if !at_once {
        this.last_clocked.set(py, ticks);
    }
    at_once
}

/// `clock` is what the loop's clock shows at `now`.
fn block(
    slf: &Bound<'_, Loop>,
    native: &Arc<NativeLoop>,
    waiting: &mut Waiting,
    now: u64,
    clock: u64,
) -> crate::error::Result<()> {
    let py = slf.py();
    let this = slf.get();
    this.rests_since.set(py, now);
    let (deadline, buried) = this.timers.with(py, |timers| {
        (timers.next_deadline_by(clock), timers.take_buried())
    });
    drop(buried);
    match deadline {
        Some(deadline) if deadline <= clock => waiting.look(native),
        Some(deadline) => {
            let deadline = now.saturating_add((deadline - clock).min(LONGEST_WAIT_NS));
            rest(py, native, waiting, Some(deadline))
        }
        None => rest(py, native, waiting, None),
    }
}

/// Waits without Python. Awake again before Python is asked for: to wait for a thread that does
/// not let go of Python is to be held up, and the watchdog must see it.
fn rest(
    py: Python<'_>,
    native: &Arc<NativeLoop>,
    waiting: &mut Waiting,
    deadline: Option<u64>,
) -> crate::error::Result<()> {
    py.detach(|| {
        native.pulse.rests();
        let result = waiting.wait(native, deadline);
        native.pulse.begins(now_ns());
        result
    })
}

/// Queues the callbacks of ready fds behind those that wait already.
fn take_events(slf: &Bound<'_, Loop>, events: &mut Vec<Ready>) {
    let py = slf.py();
    let this = slf.get();
    if events.is_empty() {
        return;
    }
    this.fds.with(py, |fds| {
        this.ready.with(py, |queue| {
            for event in events.drain(..) {
                fds.ready(py, &event, queue);
            }
        });
    });
}

/// Tells futures what Erlang answered.
fn take_posts(slf: &Bound<'_, Loop>) -> PyResult<()> {
    for posted in slf.get().native(slf.py())?.posts.take() {
        posted.arrived(slf.py());
    }
    Ok(())
}

/// Queues the timers whose time has come, earliest first.
fn take_due(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let own = loop_clock::of_program(slf)?;
    let buried = this.timers.with(py, |timers| {
        if timers.is_empty() {
            return None;
        }
        let now = own.unwrap_or_else(now_ns);
        this.ready.with(py, |queue| {
            timers.take_due(now, |timer| {
                timer.0.get().set_scheduled(false);
                queue.push_back(Item::Callback(timer.0));
            });
        });
        Some(timers.take_buried())
    });
    drop(buried);
    Ok(())
}

/// Runs what is ready now; what it adds waits for the next turn.
fn run_ready(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let count = this.ready.with(py, |ready| ready.len());
    let limit = this.threshold.get(py);
    // How many were left when the one before was taken.
    let mut left = usize::MAX;
    for _ in 0..count {
        let next = this.ready.with(py, |ready| {
            let mut next = ready.pop_front();
            if let Some(Item::Start(_, _, alone)) = &mut next {
                *alone = ready.len() + 1 == left;
            }
            left = ready.len();
            if !ready.is_empty() {
                foresee(py, ready);
            }
            next
        });
        let Some(item) = next else {
            // A callback closed the loop.
            break;
        };
        run_one(slf, item, limit)?;
        if this.between.get(py) {
            between::after_callback(slf)?;
        }
    }
    match this.between.get(py) {
        false => Ok(()),
        true => between::end_of_turn(slf),
    }
}

/// Has the caches ready for what comes next, while another is served: first the transport or the
/// handle itself, and later, when that is there, what it points to.
#[inline]
fn foresee(py: Python<'_>, ready: &ReadyQueue) {
    match ready.get(3) {
        Some(Item::Callback(handle)) => Handle::foresee(handle),
        Some(Item::Io(Watcher::Transport(transport), _)) => StreamTransport::foresee(transport),
        _ => {}
    }
    match ready.get(1) {
        Some(Item::Callback(handle)) => handle.get().foresee_context(),
        Some(Item::Io(Watcher::Transport(transport), _)) => transport.get().foresee_owned(py),
        _ => {}
    }
}

/// Runs what was queued last, now: the first step of a task that Erlang asked for.
pub fn run_last(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let Some(item) = this.ready.with(py, |ready| ready.pop_back()) else {
        return Ok(());
    };
    run_one(slf, item, this.threshold.get(py))?;
    match this.between.get(py) {
        false => Ok(()),
        true => between::after_callback(slf),
    }
}

/// Runs one thing, and sends what it wrote. `limit`: nanoseconds after which it is named.
#[inline]
pub fn run_one(slf: &Bound<'_, Loop>, item: Item, limit: Option<u64>) -> PyResult<()> {
    slf.get().next_callback(slf.py());
    let result = match limit {
        None => run_item(slf, item),
        Some(limit) => blocking::run_timed(slf, item, limit),
    };
    flush(slf)?;
    result
}

#[inline(always)]
pub fn run_item(slf: &Bound<'_, Loop>, item: Item) -> PyResult<()> {
    match item {
        Item::Callback(handle) => run_callback(slf, &handle.into_bound(slf.py())),
        Item::Io(watcher, direction) => run_io(slf, watcher, direction),
        Item::Start(transport, waiter, alone) => start(slf, transport, waiter, alone),
    }
}

#[inline(always)]
fn run_callback(slf: &Bound<'_, Loop>, handle: &Bound<'_, Handle>) -> PyResult<()> {
    let result = if handle.get().is_cancelled() {
        Ok(())
    } else if slf.get().debug.get(slf.py()) {
        slf.call_method1("_run_handle_debug", (handle,)).map(drop)
    } else {
        Handle::run(handle, false)
    };
    if collector::is_shared(handle.as_ptr()) {
        // Somebody keeps it, for who knows how long.
        Handle::notice(handle.as_unbound());
    }
    result
}

/// Bound, each of them, before it is let go of: that is quicker for whoever is known to be attached.
fn run_io(slf: &Bound<'_, Loop>, watcher: Watcher, direction: Direction) -> PyResult<()> {
    let py = slf.py();
    match watcher {
        Watcher::Transport(transport) => {
            let transport = transport.into_bound(py);
            run_transport(slf, &transport, || Transport::ready(&transport, direction))
        }
        Watcher::Operation(operation) => SockOperation::ready(&operation.into_bound(py)),
        Watcher::Callback(handle) => Handle::run(&handle.into_bound(py), false),
    }
}

fn start(
    slf: &Bound<'_, Loop>,
    transport: Py<Transport>,
    waiter: Option<Py<PyAny>>,
    alone: bool,
) -> PyResult<()> {
    let transport = transport.into_bound(slf.py());
    let waiter = waiter.map(|waiter| waiter.into_bound(slf.py()));
    run_transport(slf, &transport, || {
        Transport::start(&transport, waiter.as_ref(), alone)
    })
}

/// What a transport does where asyncio has a callback.
#[inline(always)]
fn run_transport(
    slf: &Bound<'_, Loop>,
    transport: &Bound<'_, Transport>,
    action: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let result = match slf.get().debug.get(slf.py()) {
        false => action(),
        true => blocking::run_debugged(slf, transport, action),
    };
    result.or_else(|error| Loop::callback_failed(slf, transport, error))
}

/// Sends what the callback wrote in several pieces.
#[inline]
fn flush(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let unflushed = &slf.get().unflushed;
    match unflushed.with(slf.py(), |unflushed| unflushed.is_empty()) {
        true => Ok(()),
        false => flush_all(slf),
    }
}

#[inline(never)]
fn flush_all(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    while let Some(stream) = this.unflushed.with(py, |unflushed| unflushed.pop()) {
        StreamTransport::flush_deferred(&stream.into_bound(py))?;
    }
    Ok(())
}
