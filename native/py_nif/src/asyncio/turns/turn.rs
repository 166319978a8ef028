//! A turn of the loop: timeout, wait, take, run. Everything depends on it; keep it short.

use std::sync::Arc;

use event_loop::{Direction, Ready, now_ns};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::between;
use super::waiting::Waiting;
use crate::asyncio::handles::handle::Handle;
use crate::asyncio::handles::ready::Item;
use crate::asyncio::loop_class::blocking;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::clock as loop_clock;
use crate::asyncio::loop_class::fd_table::Watcher;
use crate::asyncio::loop_class::signals as loop_signals;
use crate::cpython::errors;
use crate::cpython::process::forked;
use crate::io::sock_operation::SockOperation;
use crate::io::stream::transport::StreamTransport;
use crate::io::transports::base::Transport;
use crate::loops::NativeLoop;

/// asyncio never sleeps longer than a day at once; nor do we, so that a clock that jumps (a
/// suspended machine) is read again.
const LONGEST_WAIT_NS: u64 = 24 * 3600 * 1_000_000_000;

pub fn run(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_turn(slf, true)
}

/// As [`run`], but never waits: the thread has other loops to run.
pub fn run_nowait(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_turn(slf, false)
}

fn run_turn(slf: &Bound<'_, Loop>, block: bool) -> PyResult<()> {
    // Written outside callbacks: before the loop ran, or between two turns by hand.
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
    if let Some(take_requests) = slf.get().take_requests {
        take_requests(slf)?;
    }
    if posts {
        take_posts(slf)?;
    }
    take_due(slf)?;
    run_ready(slf)
}

/// Polls the fds, or waits for them if there is nothing to run.
fn wait(slf: &Bound<'_, Loop>, mut may_block: bool) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let busy = this.stopping.get(py)
        || this.ready.with(py, |ready| !ready.is_empty())
        || this.between.get(py);
    let now = now_ns();
    this.with_pulse(py, |pulse| pulse.turned(now));
    if !busy && may_block && this.before_sleep.replace(py, false) {
        // The call may have made something ready: this turn polls, but does not sleep.
        slf.call_method0("_before_sleep")?;
        may_block = false;
    }
    let clock = match busy || !may_block {
        true => now,
        false => loop_clock::of_program(slf)?.unwrap_or(now),
    };
    let native = this.native(py)?;
    native.requests.monitor_callers_if_due(now);
    let Some(mut waiting) = this.waiting.replace(py, None) else {
        return Err(PyRuntimeError::new_err(
            "This event loop is already running",
        ));
    };
    let result = match busy || !may_block {
        true => waiting.look(&native),
        false => block(slf, &native, &mut waiting, now, clock),
    };
    take_events(slf, &mut waiting.ready);
    this.waiting.replace(py, Some(waiting));
    result.map_err(errors::raised)?;
    if !busy {
        // Python's signal handlers run here, as after a `select()` in Python.
        py.check_signals()?;
        if native.is_orphaned() && !this.served {
            return Err(PyRuntimeError::new_err(
                "the py_event_worker of this isolated loop died",
            ));
        }
    }
    Ok(())
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

/// Waits without Python. The turn counts as awake before the thread asks for the GIL: waiting for a
/// thread that keeps the GIL means being blocked, and the watchdog must see it.
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

/// Queues the callbacks of ready fds behind those that already wait.
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

/// Completes futures with replies from Erlang.
fn take_posts(slf: &Bound<'_, Loop>) -> PyResult<()> {
    for posted in slf.get().native(slf.py())?.posts.take() {
        posted.arrived(slf.py());
    }
    Ok(())
}

/// Queues the timers that are due, earliest first.
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

/// Runs what is ready now; callbacks added meanwhile wait for the next turn.
fn run_ready(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let count = this.ready.with(py, |ready| ready.len());
    let limit = this.threshold.get(py);
    // How many were left when the previous one was taken.
    let mut left = usize::MAX;
    for _ in 0..count {
        let next = this.ready.with(py, |ready| {
            let mut next = ready.pop_front();
            if let Some(Item::Start(_, _, alone)) = &mut next {
                *alone = ready.len() + 1 == left;
            }
            left = ready.len();
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

/// Runs one item, and sends what it wrote. `limit`: nanoseconds after which it is reported.
#[inline]
pub fn run_one(slf: &Bound<'_, Loop>, item: Item, limit: Option<u64>) -> PyResult<()> {
    let result = match limit {
        None => run_item(slf, item),
        Some(limit) => blocking::run_timed(slf, item, limit),
    };
    if slf.get().served {
        forked::end_if_copy_after_callback(slf.py(), &result);
    }
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
    if handle.get().is_cancelled() {
        Ok(())
    } else if slf.get().debug.get(slf.py()) {
        slf.call_method1("_run_handle_debug", (handle,)).map(drop)
    } else {
        (slf.get()).callback(slf.py(), || Handle::run(handle, false))
    }
}

/// Each object is bound before it is dropped: that is faster in code known to be attached.
fn run_io(slf: &Bound<'_, Loop>, watcher: Watcher, direction: Direction) -> PyResult<()> {
    let py = slf.py();
    match watcher {
        Watcher::Transport(transport) => {
            let transport = transport.into_bound(py);
            run_transport(slf, &transport, || Transport::ready(&transport, direction))
        }
        Watcher::Operation(operation) => SockOperation::ready(&operation.into_bound(py)),
        Watcher::Callback(handle) => {
            let handle = handle.into_bound(py);
            slf.get().callback(py, || Handle::run(&handle, false))
        }
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

/// The operations of a transport for which asyncio has callbacks.
#[inline(always)]
fn run_transport(
    slf: &Bound<'_, Loop>,
    transport: &Bound<'_, Transport>,
    action: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let result = match this.debug.get(py) {
        false => this.callback(py, action),
        true => blocking::run_debugged(slf, transport, || this.callback(py, action)),
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
