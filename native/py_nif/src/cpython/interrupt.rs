//! Raises an exception in the Python call that runs on another thread: in that call, or not at all.
//! `py_watchdog` uses it to interrupt a loop's stuck callback, and call threads to interrupt a
//! function whose caller has gone.
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

/// From `erlang.interrupts`: the base class of the exceptions, that of calls, and a function without
/// a body. Imported before anything is raised, because an import runs Python code.
struct Parts {
    class: Py<PyType>,
    interrupted: Py<PyType>,
    nothing: Py<PyAny>,
}

static PARTS: PyOnceLock<Parts> = PyOnceLock::new();

fn parts(py: Python<'_>) -> PyResult<&Parts> {
    PARTS.get_or_try_init(py, || {
        let module = py.import("erlang.interrupts")?;
        let class = |name| PyResult::Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind());
        Ok(Parts {
            class: class("Interrupt")?,
            interrupted: class("Interrupted")?,
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

/// Until [`resume`] the call that runs cannot be interrupted. Returns its number, and whether an
/// interrupt was removed that had not been raised yet.
pub fn suspend(py: Python<'_>, calls: &Interruptible) -> PyResult<(u64, bool)> {
    let (number, sent) = calls.switch(0);
    let taken_back = match sent {
        false => false,
        true => take_back(py)?,
    };
    Ok((number, taken_back))
}

pub fn resume(calls: &Interruptible, number: u64) {
    // While no call runs nothing is sent.
    let _ = calls.switch(number);
}

#[inline(always)]
fn after_switch(py: Python<'_>, sent: bool) -> PyResult<()> {
    match sent {
        false => Ok(()),
        true => take_back(py).map(drop),
    }
}

/// Makes CPython raise the exception where it does no harm. Setting it to NULL would be enough, but
/// then CPython 3.11 and 3.12 look for it before every function call from then on. Returns `false` if
/// it had been raised in the call.
///
/// Signal handlers run at the same moment: an error is what they raised.
#[cold]
fn take_back(py: Python<'_>) -> PyResult<bool> {
    let Some(parts) = PARTS.get(py) else {
        return Ok(false);
    };
    let mut result = Ok(());
    loop {
        match parts.nothing.call0(py) {
            Err(error) if !error.is_instance(py, parts.class.bind(py)) => {
                result = result.and(Err(error));
            }
            // Still pending if this is an error, raised in the call if not.
            interrupt => return result.map(|()| interrupt.is_err()),
        }
    }
}

/// `erlang.Interrupted`, to be raised by the calling thread.
#[cold]
pub fn interrupted(py: Python<'_>) -> PyErr {
    match parts(py) {
        Ok(parts) => PyErr::from_type(parts.interrupted.bind(py).clone(), ()),
        Err(error) => error,
    }
}

/// Whether the error is one of [`interrupted`].
pub fn is_interrupted(py: Python<'_>, error: &PyErr) -> bool {
    PARTS
        .get(py)
        .is_some_and(|parts| error.is_instance(py, parts.interrupted.bind(py)))
}

/// Whether this is the class of [`interrupted`].
pub fn is_interrupted_class(class: &Bound<'_, PyAny>) -> bool {
    let parts = PARTS.get(class.py());
    parts.is_some_and(|parts| class.is(&parts.interrupted))
}

/// As [`raise`], with `erlang.Interrupted`.
pub fn raise_interrupted(
    py: Python<'_>,
    calls: &Interruptible,
    number: u64,
    thread: u64,
) -> PyResult<bool> {
    let class = parts(py)?.interrupted.bind(py);
    raise(class, calls, number, thread)
}

/// Raises `class`, a subclass of `erlang.interrupts.Interrupt`, in the call of this number if
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
