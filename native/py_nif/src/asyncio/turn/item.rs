//! Runs one item of the ready queue: a callback, or what a ready fd calls for.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use pyo3::{PyClass, intern};

use crate::asyncio::handles::handle::Handle;
use crate::asyncio::handles::ready::Item;
use crate::asyncio::loop_class::blocking;
use crate::asyncio::loop_class::class::Loop;
use crate::cpython::process::forked;
use crate::loops::profiled;

/// Runs one item, and sends what it wrote. `limit`: nanoseconds after which it is reported.
#[inline]
pub fn run(slf: &Bound<'_, Loop>, item: Item, limit: Option<u64>) -> PyResult<()> {
    let result = match limit {
        None => run_untimed(slf, item),
        Some(limit) => blocking::run_timed(slf, item, limit),
    };
    if slf.get().served().is_some() {
        forked::end_if_copy_after_callback(slf.py(), &result);
    }
    send_unsent(slf)?;
    result
}

#[inline(always)]
pub fn run_untimed(slf: &Bound<'_, Loop>, item: Item) -> PyResult<()> {
    if profiled::is_wanted() {
        name_task(slf, &item);
    }
    match item {
        Item::Callback(handle) => run_callback(slf, &handle.into_bound(slf.py())),
        Item::Io(object, direction) => object.ready(slf, direction),
        Item::Once(step) => step.run(slf),
    }
}

/// While a profile is taken: which task runs.
#[cold]
fn name_task(slf: &Bound<'_, Loop>, item: &Item) {
    let py = slf.py();
    let callback = item.callback().and_then(|handle| handle.get().callback(py));
    let name = callback.and_then(|callback| task_name(callback.bind(py)));
    slf.get().with_pulse(py, |pulse| pulse.task.set(name));
}

/// The step of a task is a method of the task.
fn task_name(callback: &Bound<'_, PyAny>) -> Option<Arc<str>> {
    static TASK: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = callback.py();
    let task = callback.getattr(intern!(py, "__self__")).ok()?;
    let is_task = task
        .is_instance(TASK.import(py, "asyncio", "Task").ok()?)
        .ok()?;
    let name = is_task.then(|| task.call_method0(intern!(py, "get_name")))?;
    Some(Arc::from(name.ok()?.str().ok()?.to_string_lossy()))
}

#[inline(always)]
fn run_callback(slf: &Bound<'_, Loop>, handle: &Bound<'_, Handle>) -> PyResult<()> {
    if handle.get().is_cancelled() {
        Ok(())
    } else if slf.get().state.debug.get(slf.py()) {
        slf.call_method1("_run_handle_debug", (handle,)).map(drop)
    } else {
        (slf.get()).callback(slf.py(), || Handle::run(handle, false))
    }
}

/// Runs an operation of a transport for which asyncio has a callback.
#[inline(always)]
pub fn run_as_callback<T: PyClass>(
    slf: &Bound<'_, Loop>,
    transport: &Bound<'_, T>,
    operation: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let result = match this.state.debug.get(py) {
        false => this.callback(py, operation),
        true => blocking::run_debugged(slf, transport.as_any(), || this.callback(py, operation)),
    };
    result.or_else(|error| Loop::callback_failed(slf, transport.as_any(), error))
}

/// Sends what the callback wrote in several pieces.
#[inline]
pub fn send_unsent(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let unflushed = &slf.get().files.unflushed;
    match unflushed.with(slf.py(), |unflushed| unflushed.is_empty()) {
        true => Ok(()),
        false => send_all_unsent(slf),
    }
}

#[inline(never)]
fn send_all_unsent(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    while let Some(transport) = this.files.unflushed.with(py, |unflushed| unflushed.pop()) {
        transport.flush(py)?;
    }
    Ok(())
}
