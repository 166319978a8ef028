//! Requests on the loop's thread: a turn takes them here, and their coroutines become asyncio
//! tasks, whose results are the replies.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::exceptions::{PyAttributeError, PyModuleNotFoundError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use rustler::Encoder;

use super::call_threads;
use super::call_threads::Job;
use super::calls;
use super::loop_streams;
use super::loop_streams::Sink;
use super::plain_streams::Slice;
use super::request::{Request, What};
use super::task::{Place, Task};
use crate::asyncio::loop_class::callers;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::futures;
use crate::asyncio::loop_class::requested::Requested;
use crate::asyncio::origin;
use crate::asyncio::turn::run_once;
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::cpython::method_calls::is_fatal;
use crate::cpython::process::forked;
use crate::loops::Work;
use crate::output::lines;

/// Starts the requests that arrived since the last turn. Only errors that must end the loop are
/// returned.
pub fn take(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    // If there is nothing, which is nearly always, this reads one word.
    if !slf
        .get()
        .with_native(py, |native| native.requests.any(native))
    {
        return Ok(());
    }
    let native = &slf.get().native(py)?;
    if native.requests.must_stop(native) {
        // `served.py` does the rest.
        slf.get().stopping.set(py, true);
    }
    if !slf.get().is_begun.get(py) {
        // The init code runs the loop: requests rely on what it sets up, so they wait.
        return Ok(());
    }
    let mut result = Ok(());
    for work in native.requests.take() {
        let done = match work {
            Work::Run(request) => {
                let task = request.task.clone();
                catch_unwind(AssertUnwindSafe(|| run(slf, request))).unwrap_or_else(|_| {
                    forget(slf, task.id);
                    task.fail(Sender::Thread, atoms::panicked());
                    Ok(())
                })
            }
            Work::Await(task, value) => start(slf, &task, value.into_bound(py)),
            Work::Cancel(id) => cancel(slf, id),
            Work::Demanded(id) => demanded(slf, id),
        };
        // The other requests were taken, too, and have to be started.
        result = result.and(done);
    }
    result
}

fn run(slf: &Bound<'_, Loop>, request: Request) -> PyResult<()> {
    let py = slf.py();
    let What::Call(function) = &request.what else {
        to_call_thread(slf, request);
        return Ok(());
    };
    let callable = match calls::find(py, function, false) {
        Ok(callable)
            if request.inline
                || calls::is_for_loop(&callable, function, request.task.is_stream) =>
        {
            callable
        }
        // A plain function.
        Ok(_) => {
            function.set_coroutine(false);
            to_call_thread(slf, request);
            return Ok(());
        }
        // A module that must be imported, or is being imported.
        Err(error)
            if error.is_instance_of::<PyModuleNotFoundError>(py)
                || error.is_instance_of::<PyAttributeError>(py) =>
        {
            to_call_thread(slf, request);
            return Ok(());
        }
        Err(error) => {
            answer(slf, &request.task, Err(error));
            return Ok(());
        }
    };
    if !request.task.is_wanted() {
        forget(slf, request.task.id);
        return Ok(());
    }
    let outcome = (slf.get()).callback(py, || calls::call(&callable, &request));
    forked::end_if_copy(py, &outcome);
    match outcome {
        Ok(value) if !request.inline => start(slf, &request.task, value),
        outcome => {
            answer(slf, &request.task, outcome);
            Ok(())
        }
    }
}

/// Plain functions never block a loop.
fn to_call_thread(slf: &Bound<'_, Loop>, request: Request) {
    let home = slf.get().native(slf.py()).ok();
    call_threads::post_or_fail(Job::Call { request, home });
}

/// Makes the loop await `value`. The first step runs at once: a coroutine that ends in it needs
/// neither a done callback nor another turn, and its caller need not be monitored.
fn start(slf: &Bound<'_, Loop>, task: &Ref<Task>, value: Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    if !slf.get().with_native(py, |_| true) {
        calls::close(&value);
        return Ok(());
    }
    if !task.begin(Place::Loop(slf.get().id)) {
        calls::close(&value);
        forget(slf, task.id);
        return Ok(());
    }
    let queued = || slf.get().ready.with(py, |ready| ready.len());
    let before = queued();
    let (asyncio_task, sink) = match make_task(slf, task, &value) {
        Ok(made) => made,
        Err(error) => {
            calls::close(&value);
            answer(slf, task, Err(error));
            return Ok(());
        }
    };
    // A task factory may have queued something else, which has to wait for its turn.
    let is_step = || !futures::has_task_factory(slf) && queued() == before + 1;
    let stepped = match !task.is_stream && is_step() {
        true => run_once::run_last(slf),
        false => Ok(()),
    };
    let followed = match is_done(&asyncio_task) && !task.is_stream {
        true => {
            let outcome = asyncio_task.call_method0(pyo3::intern!(py, "result"));
            answer(slf, task, outcome);
            Ok(())
        }
        false => follow(slf, task, asyncio_task, sink),
    };
    if let Err(error) = followed {
        answer(slf, task, Err(error));
    }
    // `SystemExit`, which ends the program.
    stepped
}

type Made<'py> = (Bound<'py, PyAny>, Option<Py<Sink>>);

fn make_task<'py>(
    slf: &Bound<'py, Loop>,
    task: &Ref<Task>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Made<'py>> {
    let py = slf.py();
    let (value, sink) = match task.is_stream {
        true => {
            let native = slf.get().native(py)?;
            loop_streams::drive(&native, task, value).map(|(driver, sink)| (driver, Some(sink)))?
        }
        false => (value.clone(), None),
    };
    let asyncio_task = if value.is_instance(coroutine_type(py)?)? {
        callers::within(slf, &task.origin, || {
            futures::create_named_task(slf, &value, &task.name.in_python(py))
        })?
    } else {
        // Other awaitables: a Future of this loop, an object with `__await__`.
        let options = PyDict::new(py);
        options.set_item("loop", slf)?;
        let asyncio = py.import("asyncio")?;
        callers::within(slf, &task.origin, || {
            asyncio.call_method("ensure_future", (&value,), Some(&options))
        })?
    };
    Ok((asyncio_task, sink))
}

fn is_done(asyncio_task: &Bound<'_, PyAny>) -> bool {
    asyncio_task
        .call_method0(pyo3::intern!(asyncio_task.py(), "done"))
        .and_then(|done| done.is_truthy())
        .unwrap_or(false)
}

/// The task waits for something: its end is the reply, its caller's death cancels it.
fn follow(
    slf: &Bound<'_, Loop>,
    task: &Ref<Task>,
    asyncio_task: Bound<'_, PyAny>,
    sink: Option<Py<Sink>>,
) -> PyResult<()> {
    let py = slf.py();
    let ended = Ended {
        task: task.clone(),
        owner: slf.clone().unbind(),
    };
    asyncio_task.call_method1(
        pyo3::intern!(py, "add_done_callback"),
        (Py::new(py, ended)?,),
    )?;
    let requested = Requested {
        task: asyncio_task.unbind(),
        sink: sink.map(Py::into_any),
    };
    slf.get()
        .requested
        .with(py, |tasks| tasks.insert(task.id, requested));
    slf.get().with_native(py, |native| {
        native.requests.monitor_later(task.id);
        true
    });
    Ok(())
}

fn coroutine_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    TYPE.import(py, "types", "CoroutineType")
}

fn cancel(slf: &Bound<'_, Loop>, id: u64) -> PyResult<()> {
    let py = slf.py();
    match requested(slf, id) {
        Some(Requested { task, sink }) => {
            if let Some(sink) = sink {
                sink.cast_bound::<Sink>(py)?.get().cancelled(py);
            }
            let task = task.bind(py);
            task.call_method0(pyo3::intern!(py, "cancel"))
                .map(drop)
                .or_else(|error| refused(slf, task, error))
        }
        // It has just ended.
        None => Ok(()),
    }
}

/// A custom future raised an exception when it was cancelled: that must not end the loop with
/// everything that runs on it.
fn refused(slf: &Bound<'_, Loop>, future: &Bound<'_, PyAny>, error: PyErr) -> PyResult<()> {
    let py = slf.py();
    if is_fatal(py, &error) {
        return Err(error);
    }
    let context = PyDict::new(py);
    context.set_item("message", "Exception when Erlang cancelled a future")?;
    context.set_item("exception", error.into_value(py))?;
    context.set_item("future", future)?;
    slf.call_method1("call_exception_handler", (context,))
        .map(drop)
}

fn demanded(slf: &Bound<'_, Loop>, id: u64) -> PyResult<()> {
    match requested(slf, id).and_then(|found| found.sink) {
        Some(sink) => sink.cast_bound::<Sink>(slf.py())?.get().demanded(slf.py()),
        // It has just ended.
        None => Ok(()),
    }
}

fn requested(slf: &Bound<'_, Loop>, id: u64) -> Option<Requested> {
    let py = slf.py();
    slf.get().requested.with(py, |tasks| {
        tasks.get(&id).map(|found| Requested {
            task: found.task.clone_ref(py),
            sink: found.sink.as_ref().map(|sink| sink.clone_ref(py)),
        })
    })
}

fn answer(slf: &Bound<'_, Loop>, task: &Ref<Task>, outcome: PyResult<Bound<'_, PyAny>>) {
    let py = slf.py();
    forget(slf, task.id);
    match &outcome {
        Err(error) if error.is_instance_of::<CancelledError>(py) => {
            lines::end(&task.origin.target());
            task.answer(|env| (atoms::error(), atoms::cancelled()).encode(env));
        }
        _ => calls::answer(py, task, outcome),
    }
}

/// The done callback of a request's asyncio task.
#[pyclass(frozen, module = "erlang_loop._native")]
struct Ended {
    task: Ref<Task>,
    owner: Py<Loop>,
}

#[pymethods]
impl Ended {
    fn __call__(&self, ended: &Bound<'_, PyAny>) {
        let py = ended.py();
        let owner = self.owner.bind(py);
        let kept = owner
            .get()
            .requested
            .with(py, |tasks| tasks.remove(&self.task.id));
        drop(kept);
        // An exception that is a panic of native code is passed on as a panic, which also gets a
        // reply.
        let result = || ended.call_method0(pyo3::intern!(py, "result"));
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(result)) else {
            forget(owner, self.task.id);
            return self.task.fail(Sender::Thread, atoms::panicked());
        };
        match outcome {
            // A coroutine that returned an iterable, over which call threads iterate.
            Ok(iterable) if self.task.is_stream && !iterable.is_none() => {
                match origin::new_context(py, &self.task.origin) {
                    Ok(context) => self.to_call_thread(owner, iterable, context),
                    Err(error) => answer(owner, &self.task, Err(error)),
                }
            }
            outcome => answer(owner, &self.task, outcome),
        }
    }

    /// The loop holds the asyncio task, the task this object, and this object the loop.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }
}

impl Ended {
    fn to_call_thread(
        &self,
        owner: &Bound<'_, Loop>,
        iterable: Bound<'_, PyAny>,
        context: Py<PyAny>,
    ) {
        let home = owner.get().native(owner.py()).ok();
        // It waits in a queue now; its loop still has it registered.
        self.task.begin(Place::SetAside);
        let slice = Slice::new(self.task.clone(), iterable.unbind(), home, context);
        call_threads::post_admitted(Job::Stream(slice));
    }
}

/// Removes a task from the loop. A closed loop has forgotten all.
fn forget(slf: &Bound<'_, Loop>, id: u64) {
    // Without counting a reference, because all schedulers that read it do.
    slf.get().with_native(slf.py(), |native| {
        native.requests.forget(id);
        true
    });
}
