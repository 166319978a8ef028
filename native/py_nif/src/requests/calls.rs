//! Runs a request: finds the function, converts its arguments, calls it, replies.
//!
//! Called on call threads, and on a loop's thread for coroutine functions. Every exception becomes
//! the reply: `SystemExit` ends neither a thread nor the node.

use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyModuleNotFoundError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::call::{Call, Code, Input};
use super::call_mailbox;
use super::call_threads;
use super::call_threads::{QueuedCall, interrupts};
use super::function::Function;
use super::on_loop::loop_requests;
use super::on_loop::loop_requests::{LoopMessage, Refused};
use super::plain_streams::Slice;
use super::reports;
use super::request::{Request, RunsOn};
use crate::asyncio::origin;
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::convert::named;
use crate::cpython::objects::slots::{code_address, is_async_iterable, is_awaitable};
use crate::cpython::process::forked;
use crate::cpython::{context, interrupt};
use crate::loops::{NativeLoop, registry};
use crate::output::lines;
use crate::questions::chain;

/// Runs a request on a call thread; awaitables go to `home`.
pub fn run(py: Python<'_>, call: Call, home: Option<Arc<NativeLoop>>) {
    let request = call.request.clone();
    let begun = match &call.code {
        Code::Function(function) if !function.is_known() => RunsOn::LookupThread,
        _ => RunsOn::CallThread,
    };
    if !request.begin(begun) {
        return settle(&request, home.as_ref());
    }
    let Some(context) = context_of(py, &request, home.as_ref()) else {
        return;
    };
    let question = call.question.clone();
    let outcome = context::within(py, &context, || {
        chain::within(question, || {
            let outcome = perform(py, &call);
            forked::end_if_copy(py, &outcome);
            outcome
        })
    });
    call_mailbox::call_ended(py);
    // The output comes before the reply, and before another thread continues.
    lines::end(&request.origin.target());
    let home = home.as_ref();
    match outcome {
        Ok(Performed::NotWanted) => settle(&request, home),
        Ok(Performed::IsForLoop) => send_to_loop(py, call, home),
        Ok(Performed::Value(value)) if is_awaitable(&value) => hand_over(&call, value, home),
        Ok(Performed::Value(value)) if request.is_stream && is_async_iterable(&value) => {
            hand_over(&call, value, home);
        }
        Ok(Performed::Value(value)) if request.is_stream => {
            Slice::new(request, value.unbind(), home.cloned(), context).run(py);
        }
        Ok(Performed::Value(value)) => finish(py, &request, Ok(value), home),
        Err(error) => finish(py, &request, Err(error), home),
    }
}

/// Finds the function of a request, on a reserve thread that calls no function: the request then
/// goes to its loop or to the call threads.
pub fn look_up(py: Python<'_>, call: Call, home: Option<Arc<NativeLoop>>) {
    let request = call.request.clone();
    let Code::Function(function) = &call.code else {
        return request.fail(Sender::Thread, Refused::Down.atom());
    };
    if !request.begin(RunsOn::LookupThread) {
        return settle(&request, home.as_ref());
    }
    let Some(context) = context_of(py, &request, home.as_ref()) else {
        return;
    };
    let found = context::within(py, &context, || {
        find(py, function, true).map(|callable| learn(&callable, function, request.is_stream))
    });
    // A module may fork while it is imported.
    forked::end_if_copy(py, &found);
    lines::end(&request.origin.target());
    match found {
        Ok(true) => send_to_loop(py, call, home.as_ref()),
        Ok(false) if !request.requeue() => settle(&request, home.as_ref()),
        Ok(false) => {
            call_threads::post_or_fail(QueuedCall::Call { call, home });
        }
        Err(error) => finish(py, &request, Err(error), home.as_ref()),
    }
}

/// `None`: there was no memory for it, and the reply says so.
fn context_of(
    py: Python<'_>,
    request: &Ref<Request>,
    home: Option<&Arc<NativeLoop>>,
) -> Option<Py<PyAny>> {
    match origin::new_context(py, &request.origin) {
        Ok(context) => Some(context),
        Err(error) => {
            finish(py, request, Err(error), home);
            None
        }
    }
}

fn finish(
    py: Python<'_>,
    request: &Ref<Request>,
    outcome: PyResult<Bound<'_, PyAny>>,
    home: Option<&Arc<NativeLoop>>,
) {
    reply(py, request, outcome);
    settle(request, home);
}

enum Performed<'py> {
    Value(Bound<'py, PyAny>),
    /// It was not called: it is a coroutine function.
    IsForLoop,
    /// It was not called: the request was cancelled before the function was found.
    NotWanted,
}

fn perform<'py>(py: Python<'py>, call: &Call) -> PyResult<Performed<'py>> {
    let value = match &call.code {
        Code::Function(function) => {
            let callable = find(py, function, true)?;
            if !function.is_known() {
                if learn(&callable, function, call.request.is_stream) {
                    return Ok(Performed::IsForLoop);
                }
                if !call.request.begin(RunsOn::CallThread) {
                    return Ok(Performed::NotWanted);
                }
            }
            let value = interrupts::within(py, call.request.id, || invoke(&callable, call))?;
            // It may have been replaced since it was checked.
            if is_for_some_loop(&value) {
                learn(&callable, function, call.request.is_stream);
            }
            value
        }
        Code::Method(method) => {
            interrupts::within(py, call.request.id, || invoke(&method.find(py)?, call))?
        }
        Code::Snippet(snippet) => {
            let variables = call.input.as_ref().and_then(Input::kwargs);
            interrupts::within(py, call.request.id, || {
                snippet.run(py, variables, call.request.result.values)
            })?
        }
    };
    Ok(Performed::Value(value))
}

/// Records the kind of a function for its next call. Returns `true` if a loop has to run it.
fn learn(callable: &Bound<'_, PyAny>, function: &Function, is_stream: bool) -> bool {
    let is_for_loop = is_for_loop(callable, function, is_stream);
    function.set_coroutine(is_for_loop);
    is_for_loop
}

pub fn invoke<'py>(callable: &Bound<'py, PyAny>, call: &Call) -> PyResult<Bound<'py, PyAny>> {
    let py = callable.py();
    let Some(input) = &call.input else {
        return callable.call0();
    };
    let options = call.request.result.values;
    let args = input.args().map(|args| named::arguments(py, args, options));
    let args = args.unwrap_or_else(|| Ok(PyTuple::empty(py)))?;
    let kwargs = input
        .kwargs()
        .map(|kwargs| named::keywords(py, "kwargs", kwargs, options));
    callable.call(args, kwargs.transpose()?.flatten().as_ref())
}

/// Imports the module. Python leaves its own import machinery out of the traceback of a module that
/// fails. If nothing else is in it, because no Python code requested the import, Python before 3.12
/// removes the traceback, but the exception still has the old one.
fn import_module<'py>(
    py: Python<'py>,
    module: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    match py.import(module) {
        Ok(module) => Ok(module.into_any()),
        Err(error) => {
            if error.traceback(py).is_none() {
                let none = py.None();
                error.value(py).setattr("__traceback__", none)?;
            }
            Err(no_name_of_a_module(py, module, error))
        }
    }
}

/// Names that people from Erlang and Elixir try, and that Python cannot find: says what one is.
#[cold]
fn no_name_of_a_module(py: Python<'_>, module: &Bound<'_, PyString>, error: PyErr) -> PyErr {
    let name = module.to_string_lossy();
    let what = if name.starts_with("Elixir.") {
        "a module of Elixir"
    } else if name.ends_with(".py") || name.contains('/') {
        "a file"
    } else {
        return error;
    };
    if !error.is_instance_of::<PyModuleNotFoundError>(py) {
        return error;
    }
    PyModuleNotFoundError::new_err(format!(
        "'{name}' names {what}. The name of a Python module is what follows `import`, as \
         json or 'os.path'; it is found in the folders of the setting python_path"
    ))
}

/// Finds the function by following the dots in its name. On a loop's thread nothing is imported:
/// that takes time, and `ModuleNotFoundError` sends the request to a call thread.
pub fn find<'py>(
    py: Python<'py>,
    function: &Function,
    import: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let names = function.names(py);
    let walk = |mut found: Bound<'py, PyAny>| -> PyResult<Bound<'py, PyAny>> {
        for name in &names.path {
            found = found.getattr(name.bind(py))?;
        }
        Ok(found)
    };
    if let Some(loaded) = loaded(py, names.module.bind(py))? {
        match walk(loaded) {
            // Another thread may be importing it: the import below waits for that.
            Err(error) if import && error.is_instance_of::<PyAttributeError>(py) => {}
            found => return found,
        }
    }
    match import {
        true => walk(import_module(py, names.module.bind(py))?),
        false => Err(PyModuleNotFoundError::new_err(())),
    }
}

pub fn loaded<'py>(
    py: Python<'py>,
    module: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || -> PyResult<Py<PyDict>> {
        Ok(py
            .import("sys")?
            .getattr("modules")?
            .cast_into::<PyDict>()?
            .unbind())
    })?;
    let found = modules.bind(py).get_item(module)?;
    Ok(found.filter(|module| !module.is_none()))
}

// ---- awaitables ----

/// Whether a call only creates something that a loop has to run: checks the function's own mark, as
/// `inspect.iscoroutinefunction` does; for a stream also that of an asynchronous generator.
pub fn is_for_loop(callable: &Bound<'_, PyAny>, function: &Function, is_stream: bool) -> bool {
    const CO_COROUTINE: u32 = 0x80;
    const CO_ASYNC_GENERATOR: u32 = 0x200;
    let py = callable.py();
    if function.has_coroutine_code(py, code_address(callable)) {
        return true;
    }
    let Ok(code) = callable.getattr(pyo3::intern!(py, "__code__")) else {
        return false;
    };
    let flags = code.getattr(pyo3::intern!(py, "co_flags"));
    let flags = flags.and_then(|flags| flags.extract()).unwrap_or(0_u32);
    if flags & CO_COROUTINE != 0 {
        function.remember_coroutine_code(code);
        return true;
    }
    is_stream && flags & CO_ASYNC_GENERATOR != 0
}

/// Whether a loop may have to run it: this check alone rules out most values.
fn is_for_some_loop(value: &Bound<'_, PyAny>) -> bool {
    is_awaitable(value) || is_async_iterable(value)
}

fn hand_over(call: &Call, value: Bound<'_, PyAny>, home: Option<&Arc<NativeLoop>>) {
    let py = value.py();
    let request = &call.request;
    if !request.requeue() {
        close(&value);
        return settle(request, home);
    }
    let target = match loop_for(call, home) {
        Ok(target) => target,
        Err(why) => {
            refuse(py, request, value, why);
            return settle(request, home);
        }
    };
    if let Err((why, LoopMessage::Await(_, value))) = loop_requests::post(
        &target,
        request,
        LoopMessage::Await(request.clone(), value.unbind()),
    ) {
        refuse(py, request, value.into_bound(py), why);
    }
}

/// Sends a coroutine function that was found, not called, to its loop.
fn send_to_loop(py: Python<'_>, call: Call, home: Option<&Arc<NativeLoop>>) {
    let request = call.request.clone();
    if !request.requeue() {
        return settle(&request, home);
    }
    let posted = loop_for(&call, home).and_then(|target| {
        loop_requests::post(&target, &request, LoopMessage::Run(call)).map_err(|(why, _)| why)
    });
    if let Err(why) = posted {
        py.detach(|| request.fail(Sender::Thread, why.atom()));
        settle(&request, home);
    }
}

/// The loop that runs the request.
fn loop_for(call: &Call, home: Option<&Arc<NativeLoop>>) -> Result<Arc<NativeLoop>, Refused> {
    let target = home.cloned().or_else(registry::default_loop);
    let target = target.ok_or(Refused::Down)?;
    match chain::blocks(call.question.as_ref(), &target) {
        true => Err(Refused::Deadlock),
        false => Ok(target),
    }
}

fn refuse(py: Python<'_>, request: &Ref<Request>, value: Bound<'_, PyAny>, why: Refused) {
    close(&value);
    py.detach(|| request.fail(Sender::Thread, why.atom()));
}

/// Closes a coroutine that will not be awaited, so that Python does not warn.
pub fn close(value: &Bound<'_, PyAny>) {
    if let Err(error) = value.call_method0("close") {
        // It has not run any of its code; a Future has no `close` and needs none.
        if !error.is_instance_of::<PyAttributeError>(value.py()) {
            error.write_unraisable(value.py(), Some(value));
        }
    }
}

// ---- the reply ----

pub fn reply(py: Python<'_>, request: &Ref<Request>, outcome: PyResult<Bound<'_, PyAny>>) {
    if let Err(error) = &outcome {
        if request.is_cast {
            report(py, atoms::cast_failed(), request, error);
        } else if !request.is_wanted() {
            report_late(py, request, error);
        }
    }
    // The output comes before the reply.
    lines::end(&request.origin.target());
    request.reply(|env| {
        let convert = || Ok(named::result(env, &outcome, py, request.result));
        interrupts::within(py, request.id, convert)
            .unwrap_or_else(|error| named::result(env, &Err(error), py, request.result))
    });
}

/// Reports an error of a request without a waiting caller; it was most likely raised while the
/// request was being cancelled.
pub fn report_late(py: Python<'_>, request: &Ref<Request>, error: &PyErr) {
    // That is how a function ends whose caller has gone.
    if interrupt::is_interrupted(py, error) {
        return;
    }
    report(py, atoms::late_failure(), request, error);
}

fn report(py: Python<'_>, tag: rustler::Atom, request: &Ref<Request>, error: &PyErr) {
    let own = rustler::OwnedEnv::new();
    own.run(|env| {
        let report = (tag, &*request.name, named::exception(env, py, error));
        reports::send(Sender::Thread, rustler::Encoder::encode(&report, env));
    });
}

pub fn settle(request: &Ref<Request>, home: Option<&Arc<NativeLoop>>) {
    request.ended();
    if let Some(home) = home {
        loop_requests::forget(home, request.id);
    }
}
