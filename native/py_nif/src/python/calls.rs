//! Runs a request: finds the function, converts, calls, answers.
//!
//! Called on call threads, and on a loop's thread for coroutine functions. Whatever the code
//! raises is the answer: `SystemExit` ends neither a thread nor the node.

use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyModuleNotFoundError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::module_attribute::module_attribute;
use super::plain_streams::Slice;
use super::{context, erlang_mailbox, origin, values};
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::loops::{NativeLoop, Refused, Work};
use crate::output::lines;
use crate::questions::chain;
use crate::tasks::{reports, Function, Given, Place, PlainArguments, Request, Task, What};

/// Runs a request on a call thread; what has to be awaited goes to `home`.
pub fn run(py: Python<'_>, request: &Request, home: Option<&Arc<NativeLoop>>) {
    let task = &request.task;
    if !task.begin(Place::CallThread) {
        return settle(task, home);
    }
    let asked_for = request.asked_for.clone();
    let context = match origin::new_context(py, &task.origin) {
        Ok(context) => context,
        // Out of memory.
        Err(error) => {
            answer(py, task, Err(error));
            return settle(task, home);
        }
    };
    let outcome = context::within(py, &context, || {
        chain::within(asked_for, || perform(py, request))
    });
    erlang_mailbox::call_ended(py);
    // What it printed comes before its answer, and before what another thread goes on with.
    lines::end(&task.origin.target());
    match outcome {
        Ok(value) if is_awaitable(&value) => hand_over(request, value, home),
        Ok(value) if task.is_stream && is_async_iterable(&value) => {
            hand_over(request, value, home);
        }
        Ok(value) if task.is_stream => {
            Slice::new(task.clone(), value.unbind(), home.cloned(), context).run(py);
        }
        outcome => {
            answer(py, task, outcome);
            settle(task, home);
        }
    }
}

fn perform<'py>(py: Python<'py>, request: &Request) -> PyResult<Bound<'py, PyAny>> {
    match &request.what {
        What::Call(function) => {
            let callable = find(py, function, true)?;
            let value = call(&callable, request)?;
            if is_for_some_loop(&value) && is_for_loop(&callable, function, request.task.is_stream)
            {
                function.set_coroutine(true);
            }
            Ok(value)
        }
        What::Eval(code) => evaluate(py, request, "eval", code),
        What::Exec(code) => evaluate(py, request, "exec", code),
    }
}

pub fn call<'py>(callable: &Bound<'py, PyAny>, request: &Request) -> PyResult<Bound<'py, PyAny>> {
    let py = callable.py();
    match &request.given {
        Given::Nothing => callable.call0(),
        Given::Plain(args) => call_plainly(callable, args),
        Given::Copied(terms) => {
            let args = terms.args().map(|args| values::arguments(py, args));
            let args = args.unwrap_or_else(|| Ok(PyTuple::empty(py)))?;
            let kwargs = terms.kwargs().map(|kwargs| values::keywords(py, kwargs));
            callable.call(args, kwargs.transpose()?.flatten().as_ref())
        }
    }
}

/// With arguments that need no tuple.
fn call_plainly<'py>(
    callable: &Bound<'py, PyAny>,
    args: &PlainArguments,
) -> PyResult<Bound<'py, PyAny>> {
    let py = callable.py();
    let mut args = args.iter().map(|value| values::plain(py, value));
    let mut next = || args.next().transpose();
    match (next()?, next()?, next()?) {
        (Some(one), None, _) => callable.call1((one,)),
        (Some(one), Some(two), None) => callable.call1((one, two)),
        (Some(one), Some(two), Some(three)) => callable.call1((one, two, three)),
        (None, ..) => callable.call0(),
    }
}

/// The namespace that `py:eval/1,2` and `py:exec/1` share.
fn shell(py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
    static SHELL: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let dict = SHELL.get_or_try_init(py, || -> PyResult<Py<PyDict>> {
        let module = PyModule::new(py, "erlang_loop_shell")?;
        py.import("sys")?
            .getattr("modules")?
            .set_item("erlang_loop_shell", &module)?;
        module.setattr("__builtins__", py.import("builtins")?)?;
        Ok(module.dict().unbind())
    })?;
    Ok(dict.bind(py))
}

fn evaluate<'py>(
    py: Python<'py>,
    request: &Request,
    mode: &str,
    code: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let builtins = py.import("builtins")?;
    let code = builtins.call_method1("compile", (code, "<erlang>", mode))?;
    let globals = shell(py)?;
    let variables = match &request.given {
        Given::Copied(terms) => terms.kwargs(),
        _ => None,
    };
    let locals = variables.map(|variables| values::keywords(py, variables));
    match locals.transpose()?.flatten() {
        Some(locals) => builtins.call_method1(mode, (code, globals, locals)),
        None => builtins.call_method1(mode, (code, globals)),
    }
}

/// The function, or what is found by walking its dots. On a loop's thread nothing is imported:
/// that takes time, and `ModuleNotFoundError` sends the request to a call thread.
pub fn find<'py>(
    py: Python<'py>,
    function: &Function,
    import: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let names = function.names(py);
    let walk = |mut found: Bound<'py, PyAny>| -> PyResult<Bound<'py, PyAny>> {
        for name in &names.path {
            found = module_attribute(&found, name.bind(py))?;
        }
        Ok(found)
    };
    if let Some(loaded) = loaded(py, names.module.bind(py))? {
        match walk(loaded) {
            // It may be half imported, by another thread: the import below waits for that.
            Err(error) if import && error.is_instance_of::<PyAttributeError>(py) => {}
            found => return found,
        }
    }
    match import {
        true => walk(py.import(names.module.bind(py))?.into_any()),
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

// ---- what has to be awaited ----

/// Whether calling it does nothing yet but make what a loop has to run: the function's own mark,
/// as `inspect.iscoroutinefunction` reads it, for a stream also that of an asynchronous generator.
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

/// Where the code of a plain Python function is; null for all else. To compare, not to look there:
/// another thread may replace it.
#[allow(unsafe_code, reason = "asks CPython for a function's code")]
fn code_address(callable: &Bound<'_, PyAny>) -> *mut ffi::PyObject {
    // SAFETY: attached, with a live object; asked only of functions.
    unsafe {
        match ffi::PyFunction_Check(callable.as_ptr()) {
            0 => std::ptr::null_mut(),
            _ => ffi::PyFunction_GetCode(callable.as_ptr()),
        }
    }
}

/// Whether a loop may have to run it: most values are told apart by this alone.
fn is_for_some_loop(value: &Bound<'_, PyAny>) -> bool {
    has_slot(value, |slots| {
        slots.am_await.is_some() || slots.am_aiter.is_some()
    })
}

fn is_awaitable(value: &Bound<'_, PyAny>) -> bool {
    has_slot(value, |slots| slots.am_await.is_some())
}

fn is_async_iterable(value: &Bound<'_, PyAny>) -> bool {
    has_slot(value, |slots| slots.am_aiter.is_some())
}

#[allow(unsafe_code, reason = "asks CPython for a type's slots")]
fn has_slot(value: &Bound<'_, PyAny>, look: impl FnOnce(&ffi::PyAsyncMethods) -> bool) -> bool {
    // SAFETY: attached; the type of a live object, whose slots are fixed.
    unsafe {
        let slots = (*ffi::Py_TYPE(value.as_ptr())).tp_as_async;
        !slots.is_null() && look(&*slots)
    }
}

fn hand_over(request: &Request, value: Bound<'_, PyAny>, home: Option<&Arc<NativeLoop>>) {
    let py = value.py();
    let task = &request.task;
    if !task.requeue() {
        close(&value);
        return settle(task, home);
    }
    let target = home.cloned().or_else(super::loop_thread::default_loop);
    let Some(target) = target else {
        return refuse(py, task, value, Refused::Down);
    };
    if chain::blocks(request.asked_for.as_ref(), &target) {
        refuse(py, task, value, Refused::Deadlock);
        return settle(task, home);
    }
    if let Err((why, Work::Await(_, value))) =
        target.post(task, Work::Await(task.clone(), value.unbind()))
    {
        refuse(py, task, value.into_bound(py), why);
    }
}

fn refuse(py: Python<'_>, task: &Ref<Task>, value: Bound<'_, PyAny>, why: Refused) {
    close(&value);
    py.detach(|| task.fail(Sender::Thread, why.atom()));
}

/// A coroutine that will not be awaited, on purpose: Python need not warn.
pub fn close(value: &Bound<'_, PyAny>) {
    if let Err(error) = value.call_method0("close") {
        // It ran none of its code yet; a Future has no `close` and needs none.
        if !error.is_instance_of::<PyAttributeError>(value.py()) {
            error.write_unraisable(value.py(), Some(value));
        }
    }
}

// ---- the answer ----

pub fn answer(py: Python<'_>, task: &Ref<Task>, outcome: PyResult<Bound<'_, PyAny>>) {
    if let Err(error) = &outcome {
        if task.is_cast {
            report(py, atoms::cast_failed(), task, error);
        } else if !task.is_wanted() {
            report_late(py, task, error);
        }
    }
    // What it printed comes before its answer.
    lines::end(&task.origin.target());
    task.answer(|env| values::result(env, &outcome, py));
}

/// What nobody waits for any more has failed, most likely while it was being cancelled.
pub fn report_late(py: Python<'_>, task: &Ref<Task>, error: &PyErr) {
    report(py, atoms::late_failure(), task, error);
}

fn report(py: Python<'_>, tag: rustler::Atom, task: &Ref<Task>, error: &PyErr) {
    let own = rustler::OwnedEnv::new();
    own.run(|env| {
        let report = (tag, &*task.name, values::exception(env, py, error));
        reports::send(Sender::Thread, rustler::Encoder::encode(&report, env));
    });
}

pub fn settle(task: &Ref<Task>, home: Option<&Arc<NativeLoop>>) {
    task.ended();
    if let Some(home) = home {
        home.requests.forget(task.id);
    }
}
