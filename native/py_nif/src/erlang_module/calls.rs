//! Python asks Erlang from a thread: `erlang.call`, `erlang.cast` and calls of funs.
//!
//! The question is sent as a message (`questions`), and the reply arrives in a NIF, on a scheduler
//! thread. That only stores the reply, and wakes the thread or the loop that waits: values are
//! converted here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustler::Encoder;

use super::running_loop::running_loop;
use super::target::Target;
use crate::atoms;
use crate::beam::own_env::{OwnEnv, OwnTerm};
use crate::convert;
use crate::convert::exception;
use crate::cpython::process::main_thread;
use crate::loops::LoopThread;
use crate::questions::chain;
use crate::questions::chain::Chain;
use crate::questions::{Question, Reply, Waiter, kind_text, server};
use crate::requests::call_threads;
use crate::requests::call_threads::Outside;

/// Signal handlers run on the main thread, and nothing else wakes it for them.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);
/// How long a call without a timeout may block a loop, in seconds.
const LOOP_PATIENCE: f64 = 5.0;

pub fn not_running() -> PyErr {
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
    ask(py, target.call(args)?, timeout)
}

/// `fun(*args)`.
pub fn call_fun<'py>(
    fun: &Bound<'py, convert::Fun>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    call(fun.py(), &Target::Fun(fun.get()), args.as_any(), None)
}

/// Sends `call` as a question and waits.
pub fn ask(py: Python<'_>, call: OwnTerm, timeout: Option<f64>) -> PyResult<Bound<'_, PyAny>> {
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
    let question = Question::new(Waiter::Thread, chain);
    // While a call thread waits for Erlang, another takes its place: Erlang may need it.
    let asked = question.clone();
    let outside = call_threads::outside(py, Box::new(move || asked.wake()))?;
    if !server::ask(&question, call) {
        return Err(not_running());
    }
    let waited = wait(py, &question, limit, outside.as_ref());
    if let Some(Err(interrupted)) = outside.map(|outside| outside.end(py)) {
        server::abandon(&question);
        return Err(interrupted);
    }
    waited.map_err(|error| match by_default {
        true if error.is_instance_of::<PyTimeoutError>(py) => PyTimeoutError::new_err(format!(
            "no reply within {LOOP_PATIENCE} s, for which erlang.call has blocked the event loop \
             of this thread: use `await erlang.async_call(...)`, or pass a timeout"
        )),
        _ => error,
    })?;
    reply(py, &question)
}

/// Waits for the reply; stops after the timeout, or if a signal handler raises.
fn wait(
    py: Python<'_>,
    question: &Arc<Question>,
    limit: Option<f64>,
    outside: Option<&Outside>,
) -> PyResult<()> {
    let is_interrupted = || outside.is_some_and(Outside::is_interrupted);
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
        if py.detach(|| question.wait(until, is_interrupted)) {
            return Ok(());
        }
        if let Err(error) = py.check_signals() {
            server::abandon(question);
            return Err(error);
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            server::abandon(question);
            let text = format!("no reply within {} s", limit.unwrap_or_default());
            return Err(PyTimeoutError::new_err(text));
        }
    }
}

/// The reply that has come, as a value or as an exception.
pub fn reply<'py>(py: Python<'py>, question: &Question) -> PyResult<Bound<'py, PyAny>> {
    match question.take_reply() {
        Some(Reply::Value(term)) => term.with(|term| {
            convert::to_python(py, term).map_err(|error| error.within("result").into())
        }),
        Some(Reply::Raised(kind, term)) => Err(term.with(|term| {
            let (reason, stacktrace) = term.decode().unwrap_or((term, term));
            exception::from_erlang(py, kind_text(kind), reason, stacktrace)
        })),
        Some(Reply::Lost) | None => Err(no_process(py)),
    }
}

/// `erlang.Error`: the process that ran the question has ended.
pub fn no_process(py: Python<'_>) -> PyErr {
    OwnEnv::new().with(|env| {
        let reason = atoms::not_alive().encode(env);
        exception::from_erlang(py, "exit", reason, atoms::none().encode(env))
    })
}

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
    match server::cast(target.call(args)?) {
        true => Ok(()),
        false => Err(not_running()),
    }
}
