//! Which process asked for the Python code that runs, as a context variable: tasks that a coroutine
//! starts inherit it, and so do threads of `asyncio.to_thread`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::asyncio::loop_class::class::Loop;
use crate::convert::Pid;
use crate::cpython::context;
use crate::cpython::context_variable::ContextVariable;
use crate::loops::{Origin, Target, begin_traces, traces};

/// The value of the variable.
#[pyclass(frozen, name = "Origin", module = "erlang_loop._native")]
pub struct OriginObject(Arc<Origin>);

static VARIABLE: ContextVariable = ContextVariable::new(c"erlang_loop_origin");

/// Runs `body` on behalf of `origin`.
pub fn within<R>(py: Python<'_>, origin: &Arc<Origin>, body: impl FnOnce() -> R) -> R {
    let token = enter(py, origin);
    let result = body();
    if let Err(error) = token.and_then(|token| VARIABLE.reset(&token)) {
        // Only what is printed is affected.
        error.write_unraisable(py, None);
    }
    result
}

/// As [`within`], until the end of the current context.
pub fn set(py: Python<'_>, origin: &Arc<Origin>) -> PyResult<()> {
    enter(py, origin)?;
    if let Some(trace) = &origin.trace {
        // For tracers, which have context variables of their own. Without it the code still runs.
        if let Err(error) = tracing(py).and_then(|it| it.call_method1("_begin", (&**trace,))) {
            error.write_unraisable(py, None);
        }
    }
    Ok(())
}

fn tracing(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("erlang_loop.tracing")
}

/// The `traceparent` that a call to Erlang carries: that of the span that Python is in, or of the
/// caller.
pub fn outgoing_trace(py: Python<'_>) -> Option<String> {
    if !traces() {
        return None;
    }
    let current = || tracing(py)?.call_method0("traceparent")?.extract();
    current().unwrap_or_else(|error: PyErr| {
        error.write_unraisable(py, None);
        None
    })
}

/// The `traceparent` of the process that asked for the code that runs.
#[pyfunction]
pub fn _caller_trace(py: Python<'_>) -> Option<String> {
    current(py)?.trace.as_deref().map(String::from)
}

/// From now on calls to Erlang carry the trace that Python is in.
#[pyfunction]
pub fn _begin_traces() {
    begin_traces();
}

fn enter<'py>(py: Python<'py>, origin: &Arc<Origin>) -> PyResult<Bound<'py, PyAny>> {
    VARIABLE.set(Bound::new(py, OriginObject(origin.clone()))?.as_any())
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
    let value = context.call_method1("get", (VARIABLE.object(context.py())?,))?;
    let origin = value.cast::<OriginObject>().ok();
    Ok(origin.map(|origin| Pid::of(&origin.get().0.caller)))
}

/// The origin of the code that runs, if there is one.
pub fn current(py: Python<'_>) -> Option<Arc<Origin>> {
    let value = VARIABLE.get(py).ok()??;
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
    let running = running.cast::<Loop>().ok()?.get();
    running.served().map(|served| served.origin.clone())
}
