//! Python asks Erlang: `erlang.call`, `erlang.async_call`, `erlang.cast` and calls of funs.
//!
//! The question goes out as a message (`questions`), and the answer comes in by a NIF, on a
//! scheduler thread. That only keeps it, and wakes the thread or the loop that waits: values are
//! converted here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use rustler::{Encoder, Env, Term};

use super::gil_cell::GilCell;
use super::loop_class::Loop;
use super::{call_threads, calls, main_thread};
use crate::atoms;
use crate::beam::own_env::OwnEnv;
use crate::convert::{self, exception};
use crate::loops::{Posted, Recipient};
use crate::questions::chain::{self, Chain, LoopThread};
use crate::questions::{kind_text, server, Answer, Question, Terms, Waiter};

/// Signal handlers run on the main thread, and nothing else wakes it for them.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);
/// So long a loop is blocked by a call that has no time-out of its own.
const LOOP_PATIENCE: f64 = 5.0;

/// What is to be called.
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
    PyRuntimeError::new_err("Erlang cannot be asked: the application erlang_loop is not running")
}

pub fn seconds(timeout: Option<f64>) -> PyResult<Option<f64>> {
    match timeout {
        Some(seconds) if seconds.is_nan() || seconds < 0.0 => {
            Err(PyValueError::new_err("timeout must not be negative"))
        }
        // Longer than anybody waits, and than an Instant can hold on some systems.
        Some(seconds) if seconds > 1e9 => Ok(None),
        timeout => Ok(timeout),
    }
}

// ---- threads ----

/// `erlang.call`: waits for the answer, without the GIL.
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

/// Asks `terms` and waits.
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
    // A call thread that waits for Erlang leaves its place to another: Erlang may need it.
    let _outside = call_threads::outside()?;
    if !server::ask(&question) {
        return Err(not_running());
    }
    wait(py, &question, limit).map_err(|error| match by_default {
        true if error.is_instance_of::<PyTimeoutError>(py) => PyTimeoutError::new_err(format!(
            "no answer within {LOOP_PATIENCE} s, for which erlang.call has blocked the event loop \
             of this thread: use `await erlang.async_call(...)`, or give it a timeout"
        )),
        _ => error,
    })?;
    answer(py, &question)
}

/// Waits until it is answered; gives it up when the time is over or a signal handler raises.
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
            let text = format!("no answer within {} s", limit.unwrap_or_default());
            return Err(PyTimeoutError::new_err(text));
        }
    }
}

/// The answer that has come, as a value or as an exception.
pub fn answer<'py>(py: Python<'py>, question: &Question) -> PyResult<Bound<'py, PyAny>> {
    match question.take_answer() {
        Some(Answer::Value(terms)) => terms.with(|term| {
            convert::to_python(py, term).map_err(|error| error.within("result").into())
        }),
        Some(Answer::Raised(kind, terms)) => Err(terms.with(|term| {
            let (reason, stacktrace) = term.decode().unwrap_or((term, term));
            exception::from_erlang(py, kind_text(kind), reason, stacktrace)
        })),
        Some(Answer::Lost) | None => Err(OwnEnv::new().with(|env| {
            let reason = atoms::not_alive().encode(env);
            exception::from_erlang(py, "exit", reason, atoms::none().encode(env))
        })),
    }
}

/// The loop that runs on this thread.
pub fn running_loop(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // A program without asyncio has no loop, and need not import it for that.
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

/// Where news for the loop that runs on this thread go.
pub fn recipient(running: &Bound<'_, PyAny>) -> PyResult<Recipient> {
    match running.cast::<Loop>() {
        Ok(ours) => {
            let native = ours.get().native(running.py())?;
            Ok(Recipient::Native(Arc::downgrade(&native)))
        }
        Err(_) => Ok(Recipient::Foreign(running.clone().unbind())),
    }
}

/// A question whose answer a future of the running loop gets.
#[pyclass(frozen, name = "Question", module = "erlang_loop._native")]
pub struct PyQuestion(Arc<Question>);

impl PyQuestion {
    /// Let go of when it has its result.
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

    /// Nobody wants the answer any more: what Erlang does for it is stopped.
    fn give_up(&self, py: Python<'_>) {
        drop(self.waiting().and_then(|future| future.take(py)));
        server::give_up(&self.0);
    }

    /// The future has the task that awaits it, and the task this object. Erlang may have the
    /// question, too, but no use for a future that is garbage.
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
    ask_terms(py, terms, server::ask)
}

/// Asks by `send`, for a future of the running loop.
pub fn ask_terms(
    py: Python<'_>,
    terms: Terms,
    send: impl FnOnce(&Arc<Question>) -> bool,
) -> PyResult<PyQuestion> {
    let Some(running) = running_loop(py)? else {
        return Err(PyRuntimeError::new_err("no running event loop"));
    };
    let future = running.call_method0(pyo3::intern!(py, "create_future"))?;
    let waiter = Waiter::Loop(recipient(&running)?, GilCell::new(Some(future.unbind())));
    let question = Question::new(terms, waiter, Chain::default());
    if !send(&question) {
        // Lost before it was asked: its future is nobody's.
        PyQuestion(question).give_up(py);
        return Err(not_running());
    }
    Ok(PyQuestion(question))
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

/// Gives a future its result, unless it was cancelled.
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

// ---- nobody waits ----

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
