//! Futures and tasks of a loop: asyncio's own classes, created without a Python frame in between
//! (`bench/`: create_task, gather).

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PyString, PyTuple};

use super::class::Loop;
use crate::cpython::fast_method::CallArguments;

/// `asyncio.futures.Future(loop=self)`. The class is looked up each time, as asyncio does:
/// programs replace it.
pub fn create_future<'py>(slf: &Bound<'py, Loop>) -> PyResult<Bound<'py, PyAny>> {
    static FUTURES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = slf.py();
    let futures = module(py, &FUTURES, "asyncio.futures")?;
    let class = futures.getattr(intern!(py, "Future"))?;
    class.call(PyTuple::empty(py), Some(&named_loop(slf)?))
}

/// The options of a task besides its coroutine that all versions of asyncio have in common.
#[derive(Default)]
struct TaskOptions<'a, 'py> {
    name: Option<Borrowed<'a, 'py, PyAny>>,
    context: Option<Borrowed<'a, 'py, PyAny>>,
}

impl<'a, 'py> TaskOptions<'a, 'py> {
    /// `None`: there are others.
    fn of(py: Python<'py>, arguments: &CallArguments<'a, 'py>) -> Option<Self> {
        let mut options = TaskOptions::default();
        for (name, value) in arguments.named() {
            let value = (!value.is_none()).then_some(value);
            if is(&name, intern!(py, "name")) {
                options.name = value;
            } else if is(&name, intern!(py, "context")) {
                options.context = value;
            } else {
                return None;
            }
        }
        Some(options)
    }
}

/// Names in programs are interned, and so is `known`.
fn is(name: &Bound<'_, PyString>, known: &Bound<'_, PyString>) -> bool {
    name.is(known) || name.as_any().eq(known).unwrap_or(false)
}

/// `loop.create_task(...)`: `asyncio.tasks.Task(coroutine, loop=self, ...)`, if the loop's settings
/// do not say otherwise.
pub fn create_task<'py>(
    slf: &Bound<'py, Loop>,
    arguments: CallArguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let (Some(coroutine), 1) = (arguments.get(0), arguments.positional) else {
        return create_task_as_asyncio(slf, arguments);
    };
    slf.get().check_closed(py)?;
    if makes_otherwise(slf) {
        return create_task_as_asyncio(slf, arguments);
    }
    match TaskOptions::of(py, &arguments) {
        None => create_task_as_asyncio(slf, arguments),
        Some(TaskOptions {
            name: None,
            context: None,
        }) => task_class(py)?.call((coroutine,), Some(&named_loop(slf)?)),
        Some(options) => {
            let named = named_loop(slf)?.copy()?;
            if let Some(name) = options.name {
                named.set_item(intern!(py, "name"), name)?;
            }
            if let Some(context) = options.context {
                named.set_item(intern!(py, "context"), context)?;
            }
            task_class(py)?.call((coroutine,), Some(&named))
        }
    }
}

/// A task with a name, for Erlang.
pub fn create_named_task<'py>(
    slf: &Bound<'py, Loop>,
    coroutine: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    slf.get().check_closed(py)?;
    if makes_otherwise(slf) {
        let named = PyDict::new(py);
        named.set_item(intern!(py, "name"), name)?;
        return asyncio_create_task(py)?.call((slf, coroutine), Some(&named));
    }
    let kept = &slf.get().creation.named_task;
    let named = match kept.take(py) {
        Some(named) => named.into_bound(py),
        None => named_loop(slf)?.copy()?,
    };
    named.set_item(intern!(py, "name"), name)?;
    let task = task_class(py)?.call((coroutine,), Some(&named));
    // Reused, because the callee has not kept it.
    drop(kept.replace(py, Some(named.unbind())));
    task
}

fn makes_otherwise(slf: &Bound<'_, Loop>) -> bool {
    slf.get().state.debug.get(slf.py()) || has_task_factory(slf)
}

pub fn has_task_factory(slf: &Bound<'_, Loop>) -> bool {
    let factory = &slf.get().creation.task_factory;
    factory.look(slf.py(), |factory| factory.is_some())
}

fn task_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static TASKS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    module(py, &TASKS, "asyncio.tasks")?.getattr(intern!(py, "Task"))
}

/// asyncio's own method, for other arguments: these differ between versions.
fn create_task_as_asyncio<'py>(
    slf: &Bound<'py, Loop>,
    arguments: CallArguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let positional = PyTuple::new(py, [slf])?.add(arguments.as_tuple()?)?;
    let named = PyDict::new(py);
    for (name, value) in arguments.named() {
        named.set_item(name, value)?;
    }
    asyncio_create_task(py)?.call(positional.cast_into::<PyTuple>()?, Some(&named))
}

fn asyncio_create_task(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static BASE_EVENTS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    module(py, &BASE_EVENTS, "asyncio.base_events")?
        .getattr(intern!(py, "BaseEventLoop"))?
        .getattr(intern!(py, "create_task"))
}

/// `{"loop": self}`, the same object each time: callees do not keep it.
fn named_loop<'py>(slf: &Bound<'py, Loop>) -> PyResult<Bound<'py, PyDict>> {
    let py = slf.py();
    let kept = &slf.get().creation.named_loop;
    if let Some(named) = kept.cloned(py) {
        return Ok(named.into_bound(py));
    }
    let named = PyDict::new(py);
    named.set_item(intern!(py, "loop"), slf)?;
    kept.replace(py, Some(named.clone().unbind()));
    Ok(named)
}

fn module<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyModule>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyModule>> {
    cell.get_or_try_init(py, || py.import(name).map(Bound::unbind))
        .map(|module| module.bind(py))
}
