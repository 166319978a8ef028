//! Raises an exception in the Python call that runs on another thread: in that call, or not at all.
//! `py_watchdog` uses it to interrupt a loop's stuck callback.
//!
//! CPython raises an asynchronous exception (`PyThreadState_SetAsyncExc`) before the next bytecode
//! of the *thread*. A call that blocks in C may have no bytecode left, and the exception would hit
//! what runs next: another task's step, or the loop's own bookkeeping. So it is set only while the
//! call runs (`event_loop::interruptible`), and the thread removes it when the call has ended.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

pub type Interruptible = event_loop::Interruptible<{ cfg!(not(Py_GIL_DISABLED)) }>;

/// From `erlang_loop.interrupts`: the base class of the exceptions, and a function without a body.
/// Imported before anything is raised, because an import runs Python code.
struct Parts {
    class: Py<PyType>,
    nothing: Py<PyAny>,
}

static PARTS: PyOnceLock<Parts> = PyOnceLock::new();

fn parts(py: Python<'_>) -> PyResult<&Parts> {
    PARTS.get_or_try_init(py, || {
        let module = py.import("erlang_loop.interrupts")?;
        Ok(Parts {
            class: module.getattr("Interrupt")?.cast_into::<PyType>()?.unbind(),
            nothing: module.getattr("nothing")?.unbind(),
        })
    })
}

/// Runs `body` as the call of this number (not 0), which [`raise`] can interrupt. Numbers of one
/// `Interruptible` are never reused. All its calls run on the same thread.
#[inline(always)]
pub fn within<R>(
    py: Python<'_>,
    calls: &Interruptible,
    number: u64,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    let (around, sent) = calls.switch(number);
    let begun = after_switch(py, sent);
    let result = body();
    let (_, sent) = calls.switch(around);
    let ended = after_switch(py, sent);
    let result = result?;
    begun.and(ended).map(|()| result)
}

/// Marks the call as ended, before [`within`] does: what follows does not belong to it.
#[cold]
pub fn end(py: Python<'_>, calls: &Interruptible) -> PyResult<()> {
    after_switch(py, calls.switch(0).1)
}

#[inline(always)]
fn after_switch(py: Python<'_>, sent: bool) -> PyResult<()> {
    match sent {
        false => Ok(()),
        true => take_back(py),
    }
}

/// Makes CPython raise the exception where it does no harm. Setting it to NULL would be enough, but
/// then CPython 3.11 and 3.12 look for it before every function call from then on.
///
/// Signal handlers run at the same moment: an error is what they raised.
#[cold]
fn take_back(py: Python<'_>) -> PyResult<()> {
    let Some(parts) = PARTS.get(py) else {
        return Ok(());
    };
    let mut result = Ok(());
    loop {
        match parts.nothing.call0(py) {
            Err(error) if !error.is_instance(py, parts.class.bind(py)) => {
                result = result.and(Err(error));
            }
            // It was still pending, or had been raised in the call.
            _ => return result,
        }
    }
}

/// Raises `class`, a subclass of `erlang_loop.interrupts.Interrupt`, in the call of this number if
/// that still runs; `thread` is Python's number of its thread. A call into C returns first, and if
/// no Python code of the call is left by then, nothing is raised.
pub fn raise(
    class: &Bound<'_, PyType>,
    calls: &Interruptible,
    number: u64,
    thread: u64,
) -> PyResult<bool> {
    parts(class.py())?;
    Ok(calls.send(number, || {
        // SAFETY: attached; the thread is alive, because the call runs. Nothing here passes the GIL
        // to another thread.
        unsafe { ffi::PyThreadState_SetAsyncExc(thread as _, class.as_ptr()) };
    }))
}
