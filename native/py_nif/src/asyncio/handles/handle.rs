//! `Handle`: a callback that waits for its turn. The result of `call_soon`.
//!
//! It is asyncio's Handle with the same attributes; `TimerHandle` in `timer_handle` adds a time.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

use super::chains;
use crate::asyncio::loop_class::class::Loop;
use crate::cpython::arguments::Arguments;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::context;
use crate::cpython::errors;
use crate::cpython::method_calls::is_fatal;

/// What debug mode records of a handle.
#[derive(Default)]
struct DebugInfo {
    traceback: Option<Py<PyAny>>,
    /// Its repr when it was cancelled, before its callback was dropped.
    repr: Option<Py<PyString>>,
}

impl DebugInfo {
    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.traceback)?;
        visit.call(&self.repr)
    }
}

/// The callback and its arguments, until it has been called or cancelled.
pub struct Call {
    callback: Py<PyAny>,
    arguments: Arguments,
}

impl Call {
    pub fn new(callback: Bound<'_, PyAny>, arguments: impl Into<Arguments>) -> Self {
        Call {
            callback: callback.unbind(),
            arguments: arguments.into(),
        }
    }

    pub fn callback(&self) -> &Py<PyAny> {
        &self.callback
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        Call {
            callback: self.callback.clone_ref(py),
            arguments: self.arguments.clone_ref(py),
        }
    }

    #[inline]
    fn drop_ref(self, py: Python<'_>) {
        self.callback.drop_ref(py);
        self.arguments.drop_ref(py);
    }

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.callback)?;
        self.arguments.traverse(visit)
    }
}

#[pyclass(subclass, frozen, weakref, module = "erlang_loop._native")]
pub struct Handle {
    call: GilSlot<Option<Call>>,
    context: Py<PyAny>,
    owner: Py<Loop>,
    /// Only changed with the GIL; atomic so that the timer heap may read it without a token.
    /// Relaxed: the GIL orders it.
    cancelled: AtomicBool,
    /// In the loop's timer heap: cancelling it must be recorded there. As `cancelled`.
    scheduled: AtomicBool,
    /// A callback of an fd, which runs many times. As `cancelled`.
    repeats: AtomicBool,
    /// It is a `ThreadSafeHandle`. As `cancelled`.
    #[cfg(Py_3_14)]
    has_lock: AtomicBool,
    origin: GilSlot<Option<Box<DebugInfo>>>,
}

impl Handle {
    /// A handle for `call`, with a copy of the current context unless one is passed.
    #[inline]
    pub fn build(
        owner: &Bound<'_, Loop>,
        call: Call,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Handle> {
        let py = owner.py();
        let context = match context {
            Some(given) => given.unbind(),
            None => context::copy_current(py)?,
        };
        let origin = match owner.get().state.debug.get(py) {
            false => None,
            true => Some(Box::new(DebugInfo {
                traceback: Some(owner.call_method0("_creation_traceback")?.unbind()),
                repr: None,
            })),
        };
        Ok(Handle {
            call: GilSlot::new(Some(call)),
            context,
            owner: owner.clone().unbind(),
            cancelled: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            repeats: AtomicBool::new(false),
            #[cfg(Py_3_14)]
            has_lock: AtomicBool::new(false),
            origin: GilSlot::new(origin),
        })
    }

    /// As [`build`](Self::build), for one of the loop's queues.
    #[inline]
    pub fn new(
        owner: &Bound<'_, Loop>,
        call: Call,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Handle>> {
        Py::new(owner.py(), Self::build(owner, call, context)?)
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

    /// The loop that created this handle.
    pub fn owner(&self) -> &Py<Loop> {
        &self.owner
    }

    fn in_debug(&self, py: Python<'_>) -> bool {
        self.owner.get().state.debug.get(py)
    }

    /// For a callback that runs whenever its fd is ready.
    pub fn repeating(self) -> Self {
        self.repeats.store(true, Ordering::Relaxed);
        self
    }

    #[cfg(Py_3_14)]
    pub fn with_lock(self) -> Self {
        self.has_lock.store(true, Ordering::Relaxed);
        self
    }

    /// Runs the callback. An exception goes to the loop's exception handler; only exceptions that
    /// must end the program (`SystemExit`, `KeyboardInterrupt`) are returned. `keep`: debug mode
    /// names the callback afterwards.
    #[inline]
    pub fn run(slf: &Bound<'_, Handle>, keep: bool) -> PyResult<()> {
        #[cfg(Py_3_14)]
        if slf.get().has_lock.load(Ordering::Relaxed) {
            return super::thread_safe_handle::run(slf, keep);
        }
        Self::run_unlocked(slf, keep)
    }

    #[inline]
    pub fn run_unlocked(slf: &Bound<'_, Handle>, keep: bool) -> PyResult<()> {
        let py = slf.py();
        let handle = slf.get();
        let call = match keep || handle.repeats.load(Ordering::Relaxed) {
            true => handle
                .call
                .look(py, |call| call.map(|call| call.clone_ref(py))),
            false => handle.call.take(py),
        };
        let Some(call) = call else {
            // Cancelled by an earlier callback of the same turn.
            return Ok(());
        };
        match context::run(py, &handle.context, &call.callback, &call.arguments) {
            Ok(()) => {
                call.drop_ref(py);
                Ok(())
            }
            Err(error) => {
                if !handle.is_cancelled() {
                    drop(handle.call.replace(py, Some(call)));
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
    let owner = slf.get().owner();
    owner.get().callback_raised(py, &error)?;
    // The exception object itself has no traceback before Python 3.12.
    owner.call_method1(py, "_callback_failed", (slf, error.into_value(py)))?;
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
        handle.cancelled.store(true, Ordering::Relaxed);
        if handle.in_debug(py) {
            let repr = Some(slf.repr()?.unbind());
            let mut origin = handle.origin.take(py).unwrap_or_default();
            origin.repr = repr;
            handle.origin.replace(py, Some(origin));
        }
        if let Some(call) = handle.call.take(py) {
            call.drop_ref(py);
        }
        Ok(())
    }

    fn cancelled(&self) -> bool {
        self.is_cancelled()
    }

    fn get_context(&self, py: Python<'_>) -> Py<PyAny> {
        self.context.clone_ref(py)
    }

    /// Debug mode runs callbacks through this; a program may do so, too.
    fn _run(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let owner = slf.get().owner();
        let keep = slf.get().in_debug(py);
        owner.get().callback(py, || Handle::run(slf, keep))
    }

    /// The parts of the repr as a list: asyncio's own function, so that it reads as in this Python.
    pub fn _repr_info<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let asyncio_handle = slf.py().import("asyncio.events")?.getattr("Handle")?;
        let info = asyncio_handle.call_method1("_repr_info", (slf,))?;
        Ok(info.cast_into::<PyList>()?)
    }

    /// Programs check `isinstance(handle, asyncio.Handle)`, and messages name the class.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS.import(slf.py(), "asyncio.events", "Handle").cloned()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let kept = slf.get().origin.look(py, |origin| {
            let repr = origin.and_then(|origin| origin.repr.as_ref());
            repr.map(|repr| repr.clone_ref(py))
        });
        if let Some(repr) = kept {
            return Ok(repr.to_string());
        }
        // Reports name handles: a callback without a repr() must not hide the error.
        let words = slf.call_method0("_repr_info").and_then(|it| it.extract());
        let words: Vec<String> = match words {
            Ok(words) => words,
            Err(error) if is_fatal(py, &error) => return Err(error),
            Err(_) => {
                let callback = slf.get().callback(py);
                let shown = callback.map(|callback| errors::shown(callback.bind(py)));
                ["Handle".to_owned()].into_iter().chain(shown).collect()
            }
        };
        Ok(format!("<{}>", words.join(" ")))
    }

    #[getter(_callback)]
    pub fn callback(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.call
            .look(py, |call| call.map(|call| call.callback.clone_ref(py)))
    }

    #[getter(_args)]
    fn arguments(&self, py: Python<'_>) -> PyResult<Option<Py<PyTuple>>> {
        // Creating a tuple may start the collector: not from inside the slot.
        let call = self
            .call
            .look(py, |call| call.map(|call| call.arguments.clone_ref(py)));
        call.map(|arguments| arguments.to_tuple(py)).transpose()
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
        self.origin.look(py, |origin| {
            let traceback = origin.and_then(|origin| origin.traceback.as_ref());
            traceback.map(|traceback| traceback.clone_ref(py))
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.context)?;
        visit.call(&self.owner)?;
        self.origin
            .visit(|origin| origin.map_or(Ok(()), |origin| origin.traverse(visit)))?;
        self.call
            .visit(|call| call.map_or(Ok(()), |call| call.traverse(visit)))
    }

    /// Neither the context nor the loop is cleared: both break the cycles that go through them.
    fn __clear__(&self, py: Python<'_>) {
        drop((self.call.take(py), self.origin.take(py)));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A handle that ran or was cancelled has nothing left.
        if let Some(call) = self.call.take_owned() {
            chains::free(call);
        }
    }
}
