//! What `receive` and `send` return: [`Ready`] has its value already, and ends at the first step of
//! `await`; [`Waiting`] waits for a future and then asks again.
//!
//! Both have all methods of a coroutine, so that `asyncio.create_task(receive())` works.

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use super::request::HttpRequest;
use super::{receiving, sending};
use crate::cpython::cells::gil_slot::GilSlot;

/// An awaitable with its value.
#[pyclass(frozen, module = "erlang_loop._native")]
pub struct Ready(GilSlot<Option<Py<PyAny>>>);

impl Ready {
    pub fn create<'py>(py: Python<'py>, value: Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Bound::new(py, Ready(GilSlot::new(Some(value))))?.into_any())
    }
}

#[pymethods]
impl Ready {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = self.0.take(py).unwrap_or_else(|| py.None());
        Err(PyStopIteration::new_err((value,)))
    }

    fn send(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = value;
        self.__next__(py)
    }

    #[pyo3(signature = (*error))]
    fn throw(&self, error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<Py<PyAny>> {
        Err(thrown(error)?)
    }

    fn close(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.visit(|value| visit.call(value))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }
}

/// What is waited for.
#[derive(Clone, Copy)]
pub enum For {
    /// Something to receive.
    Message,
    /// The client has read enough of what was sent.
    Room,
}

/// An awaitable that waits.
#[pyclass(frozen, module = "erlang_loop._native")]
pub struct Waiting {
    request: GilSlot<Option<Py<HttpRequest>>>,
    awaits: For,
    /// The iterator of the future that is waited for.
    steps: GilSlot<Option<Py<PyAny>>>,
    running: GilSlot<bool>,
}

impl Waiting {
    pub fn create<'py>(
        request: &Bound<'py, HttpRequest>,
        awaits: For,
    ) -> PyResult<Bound<'py, PyAny>> {
        let waiting = Waiting {
            request: GilSlot::new(Some(request.clone().unbind())),
            awaits,
            steps: GilSlot::new(None),
            running: GilSlot::default(),
        };
        Ok(Bound::new(request.py(), waiting)?.into_any())
    }

    /// `Ok`: what the task has to wait for. `StopIteration`: the value.
    fn step(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(steps) = self.steps.cloned(py) {
            match steps.call_method0(py, intern!(py, "__next__")) {
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                    drop(self.steps.take(py));
                }
                waits_or_failed => return waits_or_failed,
            }
        }
        let Some(request) = self.request.cloned(py) else {
            return Err(PyRuntimeError::new_err(
                "cannot reuse an awaited send() or receive()",
            ));
        };
        let request = request.bind(py);
        let next = match self.awaits {
            For::Message => receiving::next_or_future(request)?,
            For::Room => sending::room_or_future(request)?,
        };
        match next {
            Next::Value(value) => {
                drop(self.request.take(py));
                Err(PyStopIteration::new_err((value,)))
            }
            Next::Future(future) => {
                let steps = future.call_method0(py, intern!(py, "__await__"))?;
                let first = steps.call_method0(py, intern!(py, "__next__"))?;
                drop(self.steps.replace(py, Some(steps)));
                Ok(first)
            }
        }
    }
}

pub enum Next {
    Value(Py<PyAny>),
    Future(Py<PyAny>),
}

#[pymethods]
impl Waiting {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.running.replace(py, true) {
            return Err(PyRuntimeError::new_err("is being awaited already"));
        }
        let result = self.step(py);
        self.running.set(py, false);
        result
    }

    fn send(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = value;
        self.__next__(py)
    }

    #[pyo3(signature = (*error))]
    fn throw(&self, error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<Py<PyAny>> {
        let py = error.py();
        drop(self.request.take(py));
        match self.steps.take(py) {
            Some(steps) => steps.call_method1(py, intern!(py, "throw"), error.clone()),
            None => Err(thrown(error)?),
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        drop(self.request.take(py));
        match self.steps.take(py) {
            Some(steps) => steps.call_method0(py, intern!(py, "close")).map(drop),
            None => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.request.visit(|request| visit.call(request))?;
        self.steps.visit(|steps| visit.call(steps))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop((self.request.take(py), self.steps.take(py)));
    }
}

/// `throw(error)`, or `throw(type, value, traceback)` as older programs call it.
fn thrown(error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<PyErr> {
    let given = match error.get_item(1) {
        Ok(value) if !value.is_none() => value,
        _ => error.get_item(0)?,
    };
    Ok(PyErr::from_value(given))
}
