//! Python asks Erlang: `erlang.call`, `erlang.async_call`, `erlang.cast` and calls of funs.
//!
//! The question is sent as a message (`questions`), and the reply arrives in a NIF, on a scheduler
//! thread. That only stores the reply, and wakes the thread or the loop that waits: values are
//! converted here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use rustler::{Encoder, Env, LocalPid, Term};

use crate::asyncio::loop_class::class::Loop;
use crate::atoms;
use crate::beam::own_env::OwnEnv;
use crate::convert;
use crate::convert::exception;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::process::main_thread;
use crate::loops::LoopThread;
use crate::loops::{Posted, Recipient};
use crate::questions::chain;
use crate::questions::chain::Chain;
use crate::questions::{Answer, Question, Terms, Waiter, kind_text, server};
use crate::requests::{call_threads, calls};

/// Signal handlers run on the main thread, and nothing else wakes it for them.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);
/// How long a call without a timeout may block a loop, in seconds.
const LOOP_PATIENCE: f64 = 5.0;

/// The function to be called.
pub enum Target<'a, 'py> {
    Function {
        module: &'a Bound<'py, PyAny>,
        function: &'a Bound<'py, PyAny>,
        node: Option<&'a Bound<'py, PyAny>>,
    },
    Fun(&'a convert::Fun),
}

impl Target<'_, '_> {
    /// `{ask | tell, {call, ...}}`, as `py_questions` takes it.
    fn terms(&self, tag: rustler::Atom, args: &Bound<'_, PyAny>) -> PyResult<Terms> {
        let args = arguments(args)?;
        Terms::build(|env| -> PyResult<Term<'_>> {
            let args =
                convert::to_term(env, args.as_any()).map_err(|error| error.within("args"))?;
            let target = self.encode(env, args)?;
            Ok((tag, target).encode(env))
        })
    }

    fn encode<'b>(&self, env: Env<'b>, args: Term<'b>) -> PyResult<Term<'b>> {
        Ok(match self {
            Target::Function {
                module,
                function,
                node,
            } => {
                let module = convert::existing_atom(module, "module")?;
                let function = convert::existing_atom(function, "function")?;
                match node {
                    None => (atoms::call(), module, function, args).encode(env),
                    Some(node) => {
                        let node = convert::existing_atom(node, "node")?;
                        (atoms::call(), node, module, function, args).encode(env)
                    }
                }
            }
            Target::Fun(fun) => (atoms::apply(), fun.in_env(env), args).encode(env),
        })
    }
}

/// A list or a tuple. Text is a sequence too, but not of arguments.
fn arguments<'py>(args: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    if let Ok(list) = args.cast::<PyList>() {
        return Ok(list.clone());
    }
    match args.cast::<PyTuple>() {
        Ok(tuple) => Ok(tuple.to_list()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "args must be a list or a tuple, not {}",
            args.get_type().name()?
        ))),
    }
}

fn not_running() -> PyErr {
    PyRuntimeError::new_err("Erlang cannot be called: the application erlang_loop is not running")
}

pub fn seconds(timeout: Option<f64>) -> PyResult<Option<f64>> {
    match timeout {
        Some(seconds) if seconds.is_nan() || seconds < 0.0 => {
            Err(PyValueError::new_err("timeout must not be negative"))
        }
        // Longer than any caller waits, and than an Instant can hold on some systems.
        Some(seconds) if seconds > 1e9 => Ok(None),
        timeout => Ok(timeout),
    }
}

// ---- threads ----

/// `erlang.call`: waits for the reply, without the GIL.
#[pyfunction]
#[pyo3(signature = (module, function, args, timeout, node, /))]
pub fn _call<'py>(
    module: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyAny>,
    timeout: Option<f64>,
    node: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let target = Target::Function {
        module,
        function,
        node,
    };
    call(module.py(), &target, args, timeout)
}

pub fn call<'py>(
    py: Python<'py>,
    target: &Target<'_, 'py>,
    args: &Bound<'py, PyAny>,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    convert::in_node()?;
    let timeout = seconds(timeout)?;
    call_terms(py, target.terms(atoms::ask(), args)?, timeout)
}

/// `fun(*args)`.
pub fn call_fun<'py>(
    fun: &Bound<'py, convert::Fun>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    call(fun.py(), &Target::Fun(fun.get()), args.as_any(), None)
}

/// Sends the question `terms` and waits.
pub fn call_terms(
    py: Python<'_>,
    terms: Terms,
    timeout: Option<f64>,
) -> PyResult<Bound<'_, PyAny>> {
    let running = running_loop(py)?;
    let blocks = running.is_some().then(LoopThread::this);
    let (limit, by_default) = match (timeout, &running) {
        (None, Some(_)) => (Some(LOOP_PATIENCE), true),
        (timeout, _) => (timeout, false),
    };
    let chain = Chain {
        blocks,
        above: chain::current(),
    };
    let question = Question::new(terms, Waiter::Thread, chain);
    // While a call thread waits for Erlang, another takes its place: Erlang may need it.
    let _outside = call_threads::outside()?;
    if !server::ask(&question) {
        return Err(not_running());
    }
    wait(py, &question, limit).map_err(|error| match by_default {
        true if error.is_instance_of::<PyTimeoutError>(py) => PyTimeoutError::new_err(format!(
            "no reply within {LOOP_PATIENCE} s, for which erlang.call has blocked the event loop \
             of this thread: use `await erlang.async_call(...)`, or pass a timeout"
        )),
        _ => error,
    })?;
    answer(py, &question)
}

/// Waits for the reply; gives up after the timeout, or if a signal handler raises.
pub fn wait(py: Python<'_>, question: &Arc<Question>, limit: Option<f64>) -> PyResult<()> {
    let deadline = limit.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let main = main_thread::is_this();
    loop {
        let until = match (main, deadline) {
            (false, deadline) => deadline,
            (true, deadline) => {
                let look = Instant::now() + LOOK_FOR_SIGNALS;
                Some(deadline.map_or(look, |deadline| deadline.min(look)))
            }
        };
        if py.detach(|| question.wait(until)) {
            return Ok(());
        }
        if let Err(error) = py.check_signals() {
            server::give_up(question);
            return Err(error);
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            server::give_up(question);
            let text = format!("no reply within {} s", limit.unwrap_or_default());
            return Err(PyTimeoutError::new_err(text));
        }
    }
}

/// The reply that has come, as a value or as an exception.
pub fn answer<'py>(py: Python<'py>, question: &Question) -> PyResult<Bound<'py, PyAny>> {
    match question.take_answer() {
        Some(Answer::Value(terms)) => terms.with(|term| {
            convert::to_python(py, term).map_err(|error| error.within("result").into())
        }),
        Some(Answer::Raised(kind, terms)) => Err(terms.with(|term| {
            let (reason, stacktrace) = term.decode().unwrap_or((term, term));
            exception::from_erlang(py, kind_text(kind), reason, stacktrace)
        })),
        Some(Answer::Lost) | None => Err(no_process(py)),
    }
}

/// `erlang.Error`: the process that ran the question has ended.
pub fn no_process(py: Python<'_>) -> PyErr {
    OwnEnv::new().with(|env| {
        let reason = atoms::not_alive().encode(env);
        exception::from_erlang(py, "exit", reason, atoms::none().encode(env))
    })
}

/// The loop that runs on this thread.
pub fn running_loop(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // A program without asyncio has no loop, and must not import asyncio for this.
    if RUNNING.get(py).is_none()
        && calls::loaded(py, pyo3::intern!(py, "asyncio.events"))?.is_none()
    {
        return Ok(None);
    }
    let running = RUNNING
        .import(py, "asyncio.events", "_get_running_loop")?
        .call0()?;
    Ok((!running.is_none()).then_some(running))
}

// ---- loops ----

/// Where posts for the loop that runs on this thread go.
pub fn recipient(running: &Bound<'_, PyAny>) -> PyResult<Recipient> {
    match running.cast::<Loop>() {
        Ok(ours) => {
            let native = ours.get().native(running.py())?;
            Ok(Recipient::Native(Arc::downgrade(&native)))
        }
        Err(_) => Ok(Recipient::Foreign(running.clone().unbind())),
    }
}

/// A question whose reply goes to a future of the running loop.
#[pyclass(frozen, name = "Question", module = "erlang_loop._native")]
pub struct PyQuestion(Arc<Question>);

impl PyQuestion {
    /// The future; dropped when it has its result.
    fn waiting(&self) -> Option<&GilCell<Option<Py<PyAny>>>> {
        match &self.0.waiter {
            Waiter::Loop(_, future) => Some(future),
            _ => None,
        }
    }
}

#[pymethods]
impl PyQuestion {
    /// None when it has its result.
    #[getter]
    fn future(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.waiting()?.cloned(py)
    }

    /// The caller no longer waits: the process that runs the question is stopped.
    fn give_up(&self, py: Python<'_>) {
        drop(self.waiting().and_then(|future| future.take(py)));
        server::give_up(&self.0);
    }

    /// The future refers to the task that awaits it, and the task to this object. Erlang may have
    /// the question, too, but has no use for a future that is garbage.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut result = Ok(());
        if let Some(future) = self.waiting() {
            future.visit(|future| result = visit.call(future));
        }
        result
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.waiting().and_then(|future| future.take(py)));
    }
}

/// `erlang.async_call`, up to the `await`.
#[pyfunction]
#[pyo3(signature = (module, function, args, node, /))]
pub fn _ask<'py>(
    module: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyAny>,
    node: Option<&Bound<'py, PyAny>>,
) -> PyResult<PyQuestion> {
    let target = Target::Function {
        module,
        function,
        node,
    };
    ask(module.py(), &target, args)
}

#[pyfunction]
#[pyo3(signature = (fun, args, /))]
pub fn _ask_fun(fun: &Bound<'_, convert::Fun>, args: &Bound<'_, PyAny>) -> PyResult<PyQuestion> {
    ask(fun.py(), &Target::Fun(fun.get()), args)
}

fn ask(py: Python<'_>, target: &Target<'_, '_>, args: &Bound<'_, PyAny>) -> PyResult<PyQuestion> {
    convert::in_node()?;
    let terms = target.terms(atoms::ask(), args)?;
    let question = for_future(py, terms)?;
    if !server::ask(&question.0) {
        question.give_up(py);
        return Err(not_running());
    }
    Ok(question)
}

/// Asks the process `pid` to do what `terms` say, which cannot be cancelled. Returns the future of
/// the running loop that gets the result.
pub fn ask_process(py: Python<'_>, terms: Terms, pid: &LocalPid) -> PyResult<Option<Py<PyAny>>> {
    let question = for_future(py, terms)?;
    let future = question.future(py);
    if !server::ask_process(pid, &question.0) {
        question.give_up(py);
        return Err(no_process(py));
    }
    Ok(future)
}

/// A question, not sent yet, whose reply goes to a future of the running loop.
fn for_future(py: Python<'_>, terms: Terms) -> PyResult<PyQuestion> {
    let Some(running) = running_loop(py)? else {
        return Err(PyRuntimeError::new_err("no running event loop"));
    };
    let future = running.call_method0(pyo3::intern!(py, "create_future"))?;
    let waiter = Waiter::Loop(recipient(&running)?, GilCell::new(Some(future.unbind())));
    Ok(PyQuestion(Question::new(terms, waiter, Chain::default())))
}

impl Posted for Question {
    fn recipient(&self) -> &Recipient {
        match &self.waiter {
            Waiter::Loop(recipient, _) => recipient,
            _ => unreachable!("only questions of loops are posted"),
        }
    }

    fn arrived(&self, py: Python<'_>) {
        let Waiter::Loop(_, future) = &self.waiter else {
            return;
        };
        let Some(future) = future.take(py) else {
            return;
        };
        let told = settle(future.bind(py), || answer(py, self));
        if let Err(error) = told {
            error.write_unraisable(py, Some(future.bind(py)));
        }
    }
}

/// Sets the result of a future, unless it was cancelled.
fn settle<'py>(
    future: &Bound<'py, PyAny>,
    result: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<()> {
    let py = future.py();
    if future
        .call_method0(pyo3::intern!(py, "done"))?
        .is_truthy()?
    {
        return Ok(());
    }
    match result() {
        Ok(value) => future.call_method1(pyo3::intern!(py, "set_result"), (value,)),
        Err(error) => {
            future.call_method1(pyo3::intern!(py, "set_exception"), (error.into_value(py),))
        }
    }
    .map(drop)
}

// ---- without a reply ----

/// `erlang.cast`
#[pyfunction]
#[pyo3(signature = (module, function, args, node, /))]
pub fn _cast<'py>(
    module: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyAny>,
    node: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    convert::in_node()?;
    let target = Target::Function {
        module,
        function,
        node,
    };
    let terms = target.terms(atoms::tell(), args)?;
    match server::ask(&Question::new(terms, Waiter::Nobody, Chain::default())) {
        true => Ok(()),
        false => Err(not_running()),
    }
}
