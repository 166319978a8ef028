//! Requests on the loop's thread: a turn takes them here, and their coroutines become asyncio
//! requests, whose results are the replies.

pub mod loop_requests;
pub mod loop_streams;
pub mod unmonitored;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use event_loop::now_ns;
use pyo3::exceptions::asyncio::CancelledError;
use pyo3::exceptions::{PyAttributeError, PyModuleNotFoundError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use rustler::Encoder;

use super::call::{Call, Code};
use super::call_threads;
use super::call_threads::QueuedCall;
use super::calls;
use super::functions;
use super::plain_streams::Slice;
use super::request::{Request, RunsOn};
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::futures;
use crate::asyncio::loop_class::request_tasks::RequestTask;
use crate::asyncio::origin;
use crate::asyncio::turn::run_once;
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::cpython::context;
use crate::cpython::method_calls::is_fatal;
use crate::cpython::process::forked;
use crate::loops::Origin;
use crate::loops::recorder::Kind;
use crate::output::lines;
use loop_requests::{LoopMessage, LoopRequests};
use loop_streams::Sink;

/// Starts the requests that arrived since the last turn. Only errors that must end the loop are
/// returned.
pub fn take(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    // If there is nothing, which is nearly always, this reads one word.
    if !slf.get().with_native(py, |native| native.has_requests()) {
        return Ok(());
    }
    let native = &slf.get().native(py)?;
    let Some(requests) = LoopRequests::of(native) else {
        return Ok(());
    };
    if requests.must_stop(native) {
        // `served.py` does the rest.
        slf.get().state.stopping.set(py, true);
    }
    if !slf
        .get()
        .served()
        .is_some_and(|served| served.is_begun.get(py))
    {
        // The init code runs the loop: requests rely on what it sets up, so they wait.
        return Ok(());
    }
    let mut result = Ok(());
    for message in requests.take() {
        let done = match message {
            LoopMessage::Run(call) => {
                let request = call.request.clone();
                catch_unwind(AssertUnwindSafe(|| run(slf, call))).unwrap_or_else(|_| {
                    forget(slf, request.id);
                    request.fail(Sender::Thread, atoms::panicked());
                    Ok(())
                })
            }
            LoopMessage::Await(request, value) => start(slf, &request, value.into_bound(py)),
            LoopMessage::Cancel(id) => {
                slf.get().record(py, Kind::Cancel, id);
                cancel(slf, id)
            }
            LoopMessage::Demand(id) => resume_stream(slf, id),
        };
        // The other requests were taken, too, and have to be started.
        result = result.and(done);
    }
    result
}

fn run(slf: &Bound<'_, Loop>, call: Call) -> PyResult<()> {
    let py = slf.py();
    let Code::Function(function) = &call.code else {
        to_call_thread(slf, call);
        return Ok(());
    };
    let callable = match calls::find(py, function, false) {
        Ok(callable)
            if call.inline || calls::is_for_loop(&callable, function, call.request.is_stream) =>
        {
            callable
        }
        // A plain function.
        Ok(_) => {
            function.set_coroutine(false);
            to_call_thread(slf, call);
            return Ok(());
        }
        // A module that must be imported, or is being imported.
        Err(error)
            if error.is_instance_of::<PyModuleNotFoundError>(py)
                || error.is_instance_of::<PyAttributeError>(py) =>
        {
            to_call_thread(slf, call);
            return Ok(());
        }
        Err(error) => {
            reply(slf, &call.request, Err(error));
            return Ok(());
        }
    };
    if !call.request.is_wanted() {
        forget(slf, call.request.id);
        return Ok(());
    }
    call.request.record_begin();
    slf.get().record(py, Kind::RequestIn, call.request.id);
    let outcome = (slf.get()).callback(py, || calls::invoke(&callable, &call));
    forked::end_if_copy(py, &outcome);
    match outcome {
        Ok(value) if !call.inline => start(slf, &call.request, value),
        outcome => {
            reply(slf, &call.request, outcome);
            Ok(())
        }
    }
}

/// Plain functions never block a loop.
fn to_call_thread(slf: &Bound<'_, Loop>, call: Call) {
    let home = slf.get().native(slf.py()).ok();
    call_threads::post_or_fail(QueuedCall::Call { call, home });
}

/// Makes the loop await `value`. The first step runs at once: a coroutine that ends in it needs
/// neither a done callback nor another turn, and its caller need not be monitored.
fn start(slf: &Bound<'_, Loop>, request: &Ref<Request>, value: Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    if !slf.get().with_native(py, |_| true) {
        calls::close(&value);
        return Ok(());
    }
    if !request.begin(RunsOn::Loop(slf.get().id)) {
        calls::close(&value);
        forget(slf, request.id);
        return Ok(());
    }
    let queued = || slf.get().ready.with(py, |ready| ready.len());
    let before = queued();
    let (asyncio_task, sink) = match make_task(slf, request, &value) {
        Ok(made) => made,
        Err(error) => {
            calls::close(&value);
            reply(slf, request, Err(error));
            return Ok(());
        }
    };
    // A task factory may have queued something else, which has to wait for its turn.
    let is_step = || !futures::has_task_factory(slf) && queued() == before + 1;
    let stepped = match !request.is_stream && is_step() {
        true => run_once::run_last(slf),
        false => Ok(()),
    };
    let followed = match is_done(&asyncio_task) && !request.is_stream {
        true => {
            let outcome = asyncio_task.call_method0(pyo3::intern!(py, "result"));
            reply(slf, request, outcome);
            Ok(())
        }
        false => follow(slf, request, asyncio_task, sink),
    };
    if let Err(error) = followed {
        reply(slf, request, Err(error));
    }
    // `SystemExit`, which ends the program.
    stepped
}

type Made<'py> = (Bound<'py, PyAny>, Option<Py<Sink>>);

fn make_task<'py>(
    slf: &Bound<'py, Loop>,
    request: &Ref<Request>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Made<'py>> {
    let py = slf.py();
    let (value, sink) = match request.is_stream {
        true => {
            let native = slf.get().native(py)?;
            loop_streams::drive(&native, request, value)
                .map(|(driver, sink)| (driver, Some(sink)))?
        }
        false => (value.clone(), None),
    };
    let asyncio_task = if value.is_instance(coroutine_type(py)?)? {
        within_caller_context(slf, &request.origin, || {
            futures::create_named_task(slf, &value, &request.name.in_python(py))
        })?
    } else {
        // Other awaitables: a Future of this loop, an object with `__await__`.
        let options = PyDict::new(py);
        options.set_item("loop", slf)?;
        let asyncio = py.import("asyncio")?;
        within_caller_context(slf, &request.origin, || {
            asyncio.call_method("ensure_future", (&value,), Some(&options))
        })?
    };
    Ok((asyncio_task, sink))
}

/// Runs `body`, which creates a task, in a copy of the loop's own context, to which the caller is
/// added.
fn within_caller_context<R>(
    slf: &Bound<'_, Loop>,
    origin: &Arc<Origin>,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    let py = slf.py();
    let own = (slf.get().served()).and_then(|served| served.own_context.cloned(py));
    let context = match own {
        Some(own) => context::copy(py, &own)?,
        None => context::copy_current(py)?,
    };
    context::within(py, &context, || {
        origin::set(py, origin)?;
        body()
    })
}

fn is_done(asyncio_task: &Bound<'_, PyAny>) -> bool {
    asyncio_task
        .call_method0(pyo3::intern!(asyncio_task.py(), "done"))
        .and_then(|done| done.is_truthy())
        .unwrap_or(false)
}

/// The request waits for something: its end is the reply, its caller's death cancels it.
fn follow(
    slf: &Bound<'_, Loop>,
    request: &Ref<Request>,
    asyncio_task: Bound<'_, PyAny>,
    sink: Option<Py<Sink>>,
) -> PyResult<()> {
    let py = slf.py();
    let done = TaskDone {
        request: request.clone(),
        owner: slf.clone().unbind(),
    };
    asyncio_task.call_method1(
        pyo3::intern!(py, "add_done_callback"),
        (Py::new(py, done)?,),
    )?;
    let request_task = RequestTask {
        task: asyncio_task.unbind(),
        sink: sink.map(Py::into_any),
        origin: request.origin.clone(),
        since: now_ns(),
    };
    if let Some(served) = slf.get().served() {
        let tasks = &served.request_tasks;
        tasks.with(py, |tasks| tasks.insert(request.id, request_task));
    }
    slf.get().with_native(py, |native| {
        LoopRequests::of(native).is_some_and(|requests| {
            requests.monitor_later(request.id);
            true
        })
    });
    Ok(())
}

fn coroutine_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    TYPE.import(py, "types", "CoroutineType")
}

fn cancel(slf: &Bound<'_, Loop>, id: u64) -> PyResult<()> {
    let py = slf.py();
    match request_task(slf, id) {
        Some(RequestTask { task, sink, .. }) => {
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

fn resume_stream(slf: &Bound<'_, Loop>, id: u64) -> PyResult<()> {
    match request_task(slf, id).and_then(|found| found.sink) {
        Some(sink) => sink.cast_bound::<Sink>(slf.py())?.get().demanded(slf.py()),
        // It has just ended.
        None => Ok(()),
    }
}

fn request_task(slf: &Bound<'_, Loop>, id: u64) -> Option<RequestTask> {
    let py = slf.py();
    let tasks = &slf.get().served()?.request_tasks;
    tasks.with(py, |tasks| tasks.get(&id).map(|found| found.clone_ref(py)))
}

fn reply(slf: &Bound<'_, Loop>, request: &Ref<Request>, outcome: PyResult<Bound<'_, PyAny>>) {
    let py = slf.py();
    forget(slf, request.id);
    slf.get().record_now(py, Kind::RequestOut, request.id);
    match &outcome {
        Err(error) if error.is_instance_of::<CancelledError>(py) => {
            lines::end(&request.origin.target());
            request.reply(|env| (atoms::error(), atoms::cancelled()).encode(env));
        }
        _ => calls::reply(py, request, outcome),
    }
}

/// The done callback of a request's asyncio task.
#[pyclass(frozen, module = "erlang_loop._native")]
struct TaskDone {
    request: Ref<Request>,
    owner: Py<Loop>,
}

#[pymethods]
impl TaskDone {
    fn __call__(&self, ended: &Bound<'_, PyAny>) {
        let py = ended.py();
        let owner = self.owner.bind(py);
        let kept = owner.get().served().and_then(|served| {
            let tasks = &served.request_tasks;
            tasks.with(py, |tasks| tasks.remove(&self.request.id))
        });
        if let Some(kept) = kept {
            functions::ended(&self.request.name, kept.since);
        }
        // An exception that is a panic of native code is passed on as a panic, which also gets a
        // reply.
        let result = || ended.call_method0(pyo3::intern!(py, "result"));
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(result)) else {
            forget(owner, self.request.id);
            return self.request.fail(Sender::Thread, atoms::panicked());
        };
        match outcome {
            // A coroutine that returned an iterable, over which call threads iterate.
            Ok(iterable) if self.request.is_stream && !iterable.is_none() => {
                match origin::new_context(py, &self.request.origin) {
                    Ok(context) => self.to_call_thread(owner, iterable, context),
                    Err(error) => reply(owner, &self.request, Err(error)),
                }
            }
            outcome => reply(owner, &self.request, outcome),
        }
    }

    /// The loop holds the asyncio task, the task this object, and this object the loop.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }
}

impl TaskDone {
    fn to_call_thread(
        &self,
        owner: &Bound<'_, Loop>,
        iterable: Bound<'_, PyAny>,
        context: Py<PyAny>,
    ) {
        let home = owner.get().native(owner.py()).ok();
        // It waits in a queue now; its loop still has it registered.
        self.request.begin(RunsOn::NoThread);
        let slice = Slice::new(self.request.clone(), iterable.unbind(), home, context);
        call_threads::post_admitted(QueuedCall::Stream(slice));
    }
}

/// Removes a request from the loop. A closed loop has forgotten all.
fn forget(slf: &Bound<'_, Loop>, id: u64) {
    // Without counting a reference, because all schedulers that read it do.
    slf.get().with_native(slf.py(), |native| {
        loop_requests::forget(native, id);
        true
    });
}
