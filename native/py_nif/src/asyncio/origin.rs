//! Which process asked for the Python code that runs, as a context variable: tasks that a coroutine
//! starts inherit it, and so do threads of `asyncio.to_thread`.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::asyncio::loop_class::class::Loop;
use crate::convert::Pid;
use crate::cpython::context;
use crate::loops::{Origin, Target};

/// The value of the variable.
#[pyclass(frozen, name = "Origin", module = "erlang_loop._native")]
pub struct OriginObject(Arc<Origin>);

fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let variable = VARIABLE.get_or_try_init(py, || {
        // SAFETY: attached; a new reference or null with an exception set.
        unsafe {
            let made = ffi::PyContextVar_New(c"erlang_loop_origin".as_ptr(), ffi::Py_None());
            Bound::from_owned_ptr_or_err(py, made).map(Bound::unbind)
        }
    })?;
    Ok(variable.bind(py))
}

/// Runs `body` on behalf of `origin`.
pub fn within<R>(py: Python<'_>, origin: &Arc<Origin>, body: impl FnOnce() -> R) -> R {
    let token = enter(py, origin);
    let answer = body();
    if let Err(error) = token.and_then(|token| leave(py, &token)) {
        // Only what is printed is affected.
        error.write_unraisable(py, None);
    }
    answer
}

/// As [`within`], until the end of the current context.
pub fn set(py: Python<'_>, origin: &Arc<Origin>) -> PyResult<()> {
    enter(py, origin).map(drop)
}

fn enter<'py>(py: Python<'py>, origin: &Arc<Origin>) -> PyResult<Bound<'py, PyAny>> {
    let variable = variable(py)?;
    let value = Bound::new(py, OriginObject(origin.clone()))?;
    // SAFETY: attached, with a context variable; a new reference or null with an exception set.
    unsafe {
        let token = ffi::PyContextVar_Set(variable.as_ptr(), value.as_ptr());
        Bound::from_owned_ptr_or_err(py, token)
    }
}

fn leave(py: Python<'_>, token: &Bound<'_, PyAny>) -> PyResult<()> {
    let variable = variable(py)?;
    // SAFETY: attached; the token is of this variable, and CPython checks the rest.
    match unsafe { ffi::PyContextVar_Reset(variable.as_ptr(), token.as_ptr()) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(py)),
    }
}

/// A new context for a call on a call thread: variables that are set there end with it.
pub fn new_context(py: Python<'_>, origin: &Arc<Origin>) -> PyResult<Py<PyAny>> {
    let new = context::empty(py)?;
    context::within(py, &new, || set(py, origin))?;
    Ok(new)
}

/// The process that asked for the code that runs in a context.
#[pyfunction]
#[pyo3(signature = (context, /))]
pub fn _caller_in(context: &Bound<'_, PyAny>) -> PyResult<Option<Pid>> {
    let value = context.call_method1("get", (variable(context.py())?,))?;
    let origin = value.cast::<OriginObject>().ok();
    Ok(origin.map(|origin| Pid::of(&origin.get().0.caller)))
}

/// The origin of the code that runs, if there is one.
pub fn current(py: Python<'_>) -> Option<Arc<Origin>> {
    let variable = variable(py).ok()?;
    let mut value = ptr::null_mut();
    // SAFETY: attached, with a context variable; when the call returns 0, it has written a new
    // reference (or null, if the variable has no value).
    let value = unsafe {
        match ffi::PyContextVar_Get(variable.as_ptr(), ptr::null_mut(), &mut value) {
            0 => Bound::from_owned_ptr_or_opt(py, value)?,
            _ => {
                PyErr::fetch(py);
                return None;
            }
        }
    };
    let object = value.cast::<OriginObject>().ok()?;
    Some(object.get().0.clone())
}

/// Where the output of the code that runs goes: to the group leader of the process that asked for
/// it, or of the process that owns the running loop, or to `user`.
pub fn target(py: Python<'_>) -> Option<Target> {
    let asked = current(py).or_else(|| owner_of_running_loop(py));
    asked.map(|origin| origin.target()).or_else(Target::user)
}

fn owner_of_running_loop(py: Python<'_>) -> Option<Arc<Origin>> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let get = match GET.get(py) {
        Some(get) => get.bind(py).clone(),
        None => {
            // A program without asyncio has no loop, and must not import asyncio for this.
            let modules = py.import("sys").ok()?.getattr("modules").ok()?;
            let module = modules.get_item("asyncio.events").ok()?;
            let get = module.getattr("_get_running_loop").ok()?;
            let _ = GET.set(py, get.clone().unbind());
            get
        }
    };
    let running = get.call0().ok()?;
    running.cast::<Loop>().ok()?.get().origin.clone()
}
