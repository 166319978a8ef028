//! What runs after a callback and before the next one of the ready queue: microtasks, and callbacks
//! with a priority.
//!
//! The turn checks one flag (`Loop::has_prioritized`) after each callback and comes here only if it
//! is set, so that loops that use neither pay nothing.

use std::collections::VecDeque;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::item;
use crate::asyncio::handles::handle::{Call, Handle};
use crate::asyncio::handles::ready::Item;
use crate::asyncio::loop_class::class::Loop;

/// How many microtasks those of one callback may queue, unless the program sets another limit.
const MICROTASKS: u64 = 100_000;

/// At most this many urgent callbacks run between two of the ready queue.
const URGENT_AT_ONCE: u32 = 16;

/// An idle callback waits for at most this many others.
const IDLE_WAITS: u32 = 64;

type Queue = VecDeque<Py<Handle>>;

pub struct Priorities {
    microtasks: Queue,
    /// How many microtasks the running ones have queued; None while none run.
    queued_by_running: Option<u64>,
    limit: u64,
    urgent: Queue,
    idle: Queue,
    /// How many callbacks have run since the last idle one.
    ran_since_idle: u32,
}

impl Default for Priorities {
    fn default() -> Self {
        Priorities {
            microtasks: Queue::new(),
            queued_by_running: None,
            limit: MICROTASKS,
            urgent: Queue::new(),
            idle: Queue::new(),
            ran_since_idle: 0,
        }
    }
}

impl Priorities {
    fn any(&self) -> bool {
        !(self.microtasks.is_empty() && self.urgent.is_empty() && self.idle.is_empty())
    }

    /// Everything that waits, to be dropped where Python code may run.
    pub fn take_all(&mut self) -> [Queue; 3] {
        [&mut self.microtasks, &mut self.urgent, &mut self.idle].map(std::mem::take)
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut all = [&self.microtasks, &self.urgent, &self.idle]
            .into_iter()
            .flatten();
        all.try_for_each(|handle| visit.call(handle))
    }
}

/// `queue_microtask`. The error is for endless microtasks: it is raised where one queues the next.
pub fn queue_microtask(slf: &Bound<'_, Loop>, handle: Py<Handle>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let refused =
        this.priorities
            .queues
            .with(py, |priorities| match &mut priorities.queued_by_running {
                Some(count) if *count >= priorities.limit => Some((handle, priorities.limit)),
                count => {
                    if let Some(count) = count {
                        *count += 1;
                    }
                    priorities.microtasks.push_back(handle);
                    None
                }
            });
    if let Some((_handle, limit)) = refused {
        return Err(PyRuntimeError::new_err(format!(
            "the microtasks of one callback have queued {limit} more: does one queue itself \
             endlessly? Until they end the loop does nothing else; use call_soon for work that goes on"
        )));
    }
    this.priorities.any.set(py, true);
    Ok(())
}

/// How many microtasks those of one callback may queue.
#[pyfunction]
#[pyo3(signature = (event_loop, limit, /))]
pub fn set_microtask_limit(event_loop: &Bound<'_, Loop>, limit: u64) {
    let priorities = &event_loop.get().priorities.queues;
    priorities.with(event_loop.py(), |priorities| priorities.limit = limit);
}

/// `call_soon` with a priority: -1 runs before usual callbacks, 1 after them.
#[pyfunction]
#[pyo3(signature = (event_loop, priority, callback, args, context, /))]
pub fn call_soon_prioritized(
    event_loop: &Bound<'_, Loop>,
    priority: i64,
    callback: Bound<'_, PyAny>,
    args: Bound<'_, PyTuple>,
    context: Option<Bound<'_, PyAny>>,
) -> PyResult<Py<Handle>> {
    let py = event_loop.py();
    let this = event_loop.get();
    this.check_closed(py)?;
    if !matches!(priority, -1 | 1) {
        return Err(PyValueError::new_err(format!(
            "priority must be -1 or 1, not {priority}"
        )));
    }
    if this.state.debug.get(py) {
        Loop::check_debug(event_loop, &callback, "call_soon", true)?;
    }
    let handle = Handle::new(event_loop, Call::new(callback, args), context)?;
    let queued = handle.clone_ref(py);
    this.priorities
        .queues
        .with(py, |priorities| match priority {
            -1 => priorities.urgent.push_back(queued),
            _ => priorities.idle.push_back(queued),
        });
    this.priorities.any.set(py, true);
    Ok(handle)
}

/// Runs microtasks that were queued outside callbacks, before the loop ran, and urgent callbacks.
#[cold]
pub fn begin_turn(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_microtasks(slf)?;
    run_prioritized(slf)
}

/// Microtasks first, then urgent callbacks, then those that have waited long enough.
#[cold]
pub fn after_callback(slf: &Bound<'_, Loop>) -> PyResult<()> {
    run_microtasks(slf)?;
    count_callback(slf);
    run_prioritized(slf)
}

/// With nothing else to run, one idle callback runs: then the fds are polled again.
#[cold]
pub fn end_of_turn(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    run_microtasks(slf)?;
    let alone = this.ready.with(py, |ready| ready.is_empty())
        && this
            .priorities
            .queues
            .with(py, |priorities| priorities.urgent.is_empty());
    if alone {
        run_idle(slf)?;
    }
    update_flag(slf);
    Ok(())
}

/// Runs microtasks until there are none, including those that they queue.
fn run_microtasks(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let priorities = &slf.get().priorities.queues;
    let begins = priorities.with(py, |priorities| {
        let begins = priorities.queued_by_running.is_none() && !priorities.microtasks.is_empty();
        if begins {
            priorities.queued_by_running = Some(0);
        }
        begins
    });
    // A turn inside a microtask (a program calls `_run_once`) leaves the rest to the outer one.
    if !begins {
        return Ok(());
    }
    let mut result = Ok(());
    while result.is_ok() {
        let next = priorities.with(py, |priorities| priorities.microtasks.pop_front());
        let Some(handle) = next else { break };
        result = run_handle(slf, handle);
    }
    priorities.with(py, |priorities| priorities.queued_by_running = None);
    result
}

/// Runs the callbacks of other priorities that are due.
fn run_prioritized(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let priorities = &slf.get().priorities.queues;
    let idle_is_due = || {
        priorities.with(slf.py(), |priorities| {
            priorities.ran_since_idle >= IDLE_WAITS
        })
    };
    for _ in 0..URGENT_AT_ONCE {
        if idle_is_due() {
            break;
        }
        let next = priorities.with(slf.py(), |priorities| priorities.urgent.pop_front());
        let Some(handle) = next else { break };
        run_handle(slf, handle)?;
        run_microtasks(slf)?;
        count_callback(slf);
    }
    if idle_is_due() {
        run_idle(slf)?;
    }
    update_flag(slf);
    Ok(())
}

fn run_idle(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let next = slf.get().priorities.queues.with(slf.py(), |priorities| {
        priorities.ran_since_idle = 0;
        priorities.idle.pop_front()
    });
    if let Some(handle) = next {
        run_handle(slf, handle)?;
        run_microtasks(slf)?;
    }
    Ok(())
}

/// A callback ran while others of another priority waited.
fn count_callback(slf: &Bound<'_, Loop>) {
    let priorities = &slf.get().priorities.queues;
    priorities.with(slf.py(), |priorities| {
        priorities.ran_since_idle = priorities.ran_since_idle.saturating_add(1);
    });
}

fn update_flag(slf: &Bound<'_, Loop>) {
    let py = slf.py();
    let any = slf
        .get()
        .priorities
        .queues
        .with(py, |priorities| priorities.any());
    slf.get().priorities.any.set(py, any);
}

fn run_handle(slf: &Bound<'_, Loop>, handle: Py<Handle>) -> PyResult<()> {
    let limit = slf.get().callbacks.threshold.get(slf.py());
    item::run(slf, Item::Callback(handle), limit)
}
