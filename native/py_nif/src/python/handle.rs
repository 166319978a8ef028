//! `Handle`: a callback that waits for its turn. What `call_soon` answers.
//!
//! It is asyncio's Handle with the same attributes; `TimerHandle` in `timer_handle` adds a time.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

use super::collector;
use super::context;
use super::gil_cell::GilCell;
use super::loop_class::Loop;
use super::transports::is_fatal;

/// What debug mode keeps of a handle.
#[derive(Default)]
struct Origin {
    traceback: Option<Py<PyAny>>,
    /// How it looked before it was cancelled.
    repr: Option<Py<PyString>>,
}

#[pyclass(subclass, frozen, weakref, module = "erlang_loop._native")]
pub struct Handle {
    callback: GilCell<Option<Py<PyAny>>>,
    arguments: GilCell<Option<Py<PyTuple>>>,
    context: Py<PyAny>,
    owner: Py<Loop>,
    /// Only changed with the GIL; atomic so that the timer heap may look at it without a token.
    /// Relaxed: the GIL orders it.
    cancelled: AtomicBool,
    /// In the loop's timer heap: cancelling it then has to be noted there. As `cancelled`.
    scheduled: AtomicBool,
    /// A callback of an fd, which runs many times.
    repeats: bool,
    origin: GilCell<Option<Box<Origin>>>,
}

impl Handle {
    /// A handle for `callback(*arguments)`, in a copy of the current context unless one is given.
    pub fn build(
        owner: &Bound<'_, Loop>,
        callback: Bound<'_, PyAny>,
        arguments: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Handle> {
        let py = owner.py();
        let context = match context {
            Some(context) => context.unbind(),
            None => context::copy_current(py)?,
        };
        let origin = match owner.get().debug.get(py) {
            false => None,
            true => Some(Box::new(Origin {
                traceback: Some(owner.call_method0("_creation_traceback")?.unbind()),
                repr: None,
            })),
        };
        Ok(Handle {
            callback: GilCell::new(Some(callback.unbind())),
            arguments: GilCell::new(Some(arguments.unbind())),
            context,
            owner: owner.clone().unbind(),
            cancelled: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            repeats: false,
            origin: GilCell::new(origin),
        })
    }

    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_scheduled(&self) -> bool {
        self.scheduled.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set_scheduled(&self, scheduled: bool) {
        self.scheduled.store(scheduled, Ordering::Relaxed);
    }

    /// The loop this handle was made by.
    pub fn owner(&self) -> &Py<Loop> {
        &self.owner
    }

    /// For a callback that runs whenever its fd is ready.
    pub fn repeating(mut self) -> Self {
        self.repeats = true;
        self
    }

    /// A handle in the ready queue. The collector does not look at it: it is gone after the next
    /// turn, lets go of its callback when that has run, and thousands of them would be visited in
    /// vain (`bench/`: call_soon burst).
    pub fn into_short_lived(self, py: Python<'_>) -> PyResult<Py<Handle>> {
        let handle = Py::new(py, self)?;
        collector::ignore(&handle);
        Ok(handle)
    }

    /// Runs the callback. An error of it goes to the loop's exception handler; only what must
    /// end the program (`SystemExit`, `KeyboardInterrupt`) comes back.
    pub fn run(slf: &Bound<'_, Handle>) -> PyResult<()> {
        let py = slf.py();
        let handle = slf.get();
        // Debug mode wants to name the callback afterwards.
        let keep = handle.repeats || handle.owner.get().debug.get(py);
        let (callback, arguments) = match keep {
            true => (handle.callback.cloned(py), handle.arguments.cloned(py)),
            false => (handle.callback.take(py), handle.arguments.take(py)),
        };
        let (Some(callback), Some(arguments)) = (callback, arguments) else {
            // Cancelled by an earlier callback of the same turn.
            return Ok(());
        };
        match context::run(py, &handle.context, &callback, &arguments) {
            Ok(()) => Ok(()),
            Err(error) => {
                if !handle.is_cancelled() {
                    drop(handle.callback.replace(py, Some(callback)));
                    drop(handle.arguments.replace(py, Some(arguments)));
                }
                failed(slf, error)
            }
        }
    }
}

#[cold]
fn failed(slf: &Bound<'_, Handle>, error: PyErr) -> PyResult<()> {
    let py = slf.py();
    if is_fatal(py, &error) {
        return Err(error);
    }
    let owner = slf.get().owner.bind(py);
    owner.call_method1("_callback_failed", (slf, error.value(py)))?;
    Ok(())
}

#[pymethods]
impl Handle {
    pub fn cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let handle = slf.get();
        if handle.is_cancelled() {
            return Ok(());
        }
        if handle.owner.get().debug.get(py) {
            let repr = slf.repr()?.unbind();
            handle.origin.with(py, |origin| {
                origin.get_or_insert_default().repr = Some(repr);
            });
        }
        handle.cancelled.store(true, Ordering::Relaxed);
        // Let go of at the end of this function, outside of the cells.
        let _callback = handle.callback.take(py);
        let _arguments = handle.arguments.take(py);
        Ok(())
    }

    fn cancelled(&self) -> bool {
        self.is_cancelled()
    }

    fn get_context(&self, py: Python<'_>) -> Py<PyAny> {
        self.context.clone_ref(py)
    }

    fn _run(slf: &Bound<'_, Self>) -> PyResult<()> {
        Handle::run(slf)
    }

    /// What the repr says, as a list: asyncio's own function, so that it reads as in this Python.
    pub fn _repr_info<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let asyncio_handle = slf.py().import("asyncio.events")?.getattr("Handle")?;
        let info = asyncio_handle.call_method1("_repr_info", (slf,))?;
        Ok(info.cast_into::<PyList>()?)
    }

    /// Programs ask `isinstance(handle, asyncio.Handle)`, and messages name the class.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS.import(slf.py(), "asyncio.events", "Handle").cloned()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let kept = slf.get().origin.with(py, |origin| {
            let repr = origin.as_ref().and_then(|origin| origin.repr.as_ref());
            repr.map(|repr| repr.clone_ref(py))
        });
        if let Some(repr) = kept {
            return Ok(repr.to_string());
        }
        let words: Vec<String> = slf.call_method0("_repr_info")?.extract()?;
        Ok(format!("<{}>", words.join(" ")))
    }

    #[getter(_callback)]
    pub fn callback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.callback.cloned(py)
    }

    #[getter(_args)]
    fn arguments(&self, py: Python<'_>) -> Option<Py<PyTuple>> {
        self.arguments.cloned(py)
    }

    #[getter(_context)]
    fn context_attribute(&self, py: Python<'_>) -> Py<PyAny> {
        self.context.clone_ref(py)
    }

    #[getter(_loop)]
    fn event_loop(&self, py: Python<'_>) -> Py<Loop> {
        self.owner.clone_ref(py)
    }

    #[getter(_cancelled)]
    fn cancelled_flag(&self) -> bool {
        self.is_cancelled()
    }

    #[getter(_source_traceback)]
    fn source_traceback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.origin.with(py, |origin| {
            let traceback = origin.as_ref().and_then(|origin| origin.traceback.as_ref());
            traceback.map(|traceback| traceback.clone_ref(py))
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.context)?;
        visit.call(&self.owner)?;
        let mut result = Ok(());
        self.callback
            .visit(|callback| result = visit.call(callback));
        result?;
        let mut result = Ok(());
        self.arguments
            .visit(|arguments| result = visit.call(arguments));
        result
    }

    fn __clear__(&self, py: Python<'_>) {
        drop((self.callback.take(py), self.arguments.take(py)));
    }
}
