//! Python asks Erlang from a coroutine: `erlang.async_call`. The reply completes a future of the
//! running loop.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use rustler::LocalPid;

use super::calls::{no_process, not_running, reply};
use super::running_loop::{recipient, running_loop};
use super::target::Target;
use crate::beam::own_env::OwnTerm;
use crate::convert;
use crate::cpython::cells::gil_cell::GilCell;
use crate::loops::{Posted, Recipient};
use crate::questions::chain::Chain;
use crate::questions::{Question, Waiter, server};

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
    fn abandon(&self, py: Python<'_>) {
        drop(self.waiting().and_then(|future| future.take(py)));
        server::abandon(&self.0);
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
    let call = target.call(args)?;
    let question = for_future(py)?;
    if !server::ask(&question.0, call) {
        question.abandon(py);
        return Err(not_running());
    }
    Ok(question)
}

/// Has the process `pid` run `call`, which cannot be cancelled. Returns the future of
/// the running loop that gets the result.
pub fn ask_process(py: Python<'_>, call: OwnTerm, pid: &LocalPid) -> PyResult<Option<Py<PyAny>>> {
    let question = for_future(py)?;
    let future = question.future(py);
    if !server::ask_process(pid, &question.0, call) {
        question.abandon(py);
        return Err(no_process(py));
    }
    Ok(future)
}

/// A question, not sent yet, whose reply goes to a future of the running loop.
fn for_future(py: Python<'_>) -> PyResult<PyQuestion> {
    let Some(running) = running_loop(py)? else {
        return Err(PyRuntimeError::new_err("no running event loop"));
    };
    let future = running.call_method0(pyo3::intern!(py, "create_future"))?;
    let waiter = Waiter::Loop(recipient(&running)?, GilCell::new(Some(future.unbind())));
    Ok(PyQuestion(Question::new(waiter, Chain::default())))
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
        let settled = settle(future.bind(py), || reply(py, self));
        if let Err(error) = settled {
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
