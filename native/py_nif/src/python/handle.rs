//! `Handle`: a callback that waits for its turn. What `call_soon` answers.
//!
//! It is asyncio's Handle with the same attributes; `TimerHandle` in `timer_handle` adds a time.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

use super::arguments::Arguments;
use super::collector;
use super::context::{self, HandleContext};
use super::gil_slot::GilSlot;
#[cfg(not(Py_GIL_DISABLED))]
use super::handle_pool;
use super::loop_class::Loop;
use super::prefetch::{prefetch, prefetch_object};
use super::transports::is_fatal;

/// CPython keeps more freed contexts than these to be used again.
const FEW: usize = 64;

/// What debug mode keeps of a handle.
#[derive(Default)]
struct Origin {
    traceback: Option<Py<PyAny>>,
    /// How it looked when it was cancelled, before it let go of its callback.
    repr: Option<Py<PyString>>,
}

/// What is called, until it has been called or cancelled.
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
}

/// The slots are empty only in a handle that waits to be used again (`handle_pool`).
#[pyclass(subclass, frozen, weakref, module = "erlang_loop._native")]
pub struct Handle {
    call: GilSlot<Call>,
    context: GilSlot<HandleContext>,
    owner: GilSlot<Py<Loop>>,
    /// Only changed with the GIL; atomic so that the timer heap may look at it without a token.
    /// Relaxed: the GIL orders it.
    cancelled: AtomicBool,
    /// In the loop's timer heap: cancelling it then has to be noted there. As `cancelled`.
    scheduled: AtomicBool,
    /// A callback of an fd, which runs many times. As `cancelled`.
    repeats: AtomicBool,
    /// It is a `ThreadSafeHandle`. As `cancelled`.
    #[cfg(Py_3_14)]
    has_lock: AtomicBool,
    /// Its context was made to be ignored by the collector. As `cancelled`.
    #[cfg_attr(Py_GIL_DISABLED, allow(dead_code, reason = "nothing is ignored"))]
    ignored_context: AtomicBool,
    origin: GilSlot<Box<Origin>>,
}

impl Handle {
    /// A handle for `call`, in a copy of the current context unless one is given.
    pub fn build(
        owner: &Bound<'_, Loop>,
        call: Call,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Handle> {
        let context = HandleContext::new(owner.py(), context, false)?;
        Self::build_in(owner, call, context, false)
    }

    pub fn build_in(
        owner: &Bound<'_, Loop>,
        call: Call,
        context: HandleContext,
        ignored_context: bool,
    ) -> PyResult<Handle> {
        let origin = match owner.get().debug.get(owner.py()) {
            false => None,
            true => Some(Box::new(Origin {
                traceback: Some(owner.call_method0("_creation_traceback")?.unbind()),
                repr: None,
            })),
        };
        Ok(Handle {
            call: GilSlot::new(Some(call)),
            context: GilSlot::new(Some(context)),
            owner: GilSlot::new(Some(owner.clone().unbind())),
            cancelled: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            repeats: AtomicBool::new(false),
            #[cfg(Py_3_14)]
            has_lock: AtomicBool::new(false),
            ignored_context: AtomicBool::new(ignored_context),
            origin: GilSlot::new(origin),
        })
    }

    /// A handle for the ready queue. The collector does not look at it: it is gone after the next
    /// turn, lets go of its callback when that has run, and thousands of them would be visited in
    /// vain (`bench/`: call_soon burst).
    #[inline(always)]
    pub fn short_lived(
        owner: &Bound<'_, Loop>,
        call: Call,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Handle>> {
        let py = owner.py();
        // A few contexts are used again before the collector comes.
        let crowded = owner.get().ready.with(py, |ready| ready.len()) > FEW;
        let context = HandleContext::new(py, context, crowded)?;
        #[cfg(not(Py_GIL_DISABLED))]
        if !owner.get().debug.get(py) {
            if let Some(used) = handle_pool::take::<Handle>(py) {
                used.get().use_again(owner, call, context, crowded);
                return Ok(used);
            }
        }
        let handle = Py::new(py, Self::build_in(owner, call, context, crowded)?)?;
        collector::ignore(&handle);
        Ok(handle)
    }

    /// For one from `handle_pool`.
    #[inline(always)]
    #[cfg(not(Py_GIL_DISABLED))]
    pub fn use_again(
        &self,
        owner: &Bound<'_, Loop>,
        call: Call,
        context: HandleContext,
        ignored_context: bool,
    ) {
        let py = owner.py();
        self.ignored_context
            .store(ignored_context, Ordering::Relaxed);
        self.call.replace(py, Some(call));
        self.context.replace(py, Some(context));
        self.owner.replace(py, Some(owner.clone().unbind()));
    }

    /// The collector visits it from now on: somebody else has it, too.
    #[cold]
    pub fn notice(slf: &Py<Handle>) {
        let handle = slf.get();
        handle.context.visit(|context| {
            if let Some(context) = context {
                collector::notice(context.object());
            }
        });
        collector::notice(slf);
    }

    /// Makes it as `handle_pool` keeps it.
    #[inline]
    #[cfg(not(Py_GIL_DISABLED))]
    pub fn let_go(&self, py: Python<'_>) {
        self.cancelled.store(false, Ordering::Relaxed);
        self.scheduled.store(false, Ordering::Relaxed);
        self.repeats.store(false, Ordering::Relaxed);
        // Each is out of its slot before it goes: that may run Python code.
        if let Some(call) = self.call.take(py) {
            call.drop_ref(py);
        }
        if let Some(context) = self.context.take(py) {
            context.drop_ref(py, self.ignored_context.load(Ordering::Relaxed));
        }
        if let Some(owner) = self.owner.take(py) {
            owner.drop_ref(py);
        }
        drop(self.origin.take(py));
    }

    /// Asks for the memory of a handle that will run.
    #[inline]
    pub fn foresee(handle: &Py<Handle>) {
        prefetch(handle.as_ptr(), size_of::<(ffi::PyObject, Handle)>());
    }

    /// Asks for its context, which mostly was made for it alone.
    #[inline]
    pub fn foresee_context(&self) {
        if let Some(context) = self.context_pointer() {
            prefetch_object(context);
        }
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
    pub fn owner(&self, py: Python<'_>) -> PyResult<Py<Loop>> {
        let owner = self.owner.cloned(py);
        owner.ok_or_else(|| PyRuntimeError::new_err("this handle is no longer in use"))
    }

    fn in_debug(&self, py: Python<'_>) -> bool {
        self.owner
            .look(py, |owner| owner.is_some_and(|it| it.get().debug.get(py)))
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

    /// Runs the callback. An error of it goes to the loop's exception handler; only what must
    /// end the program (`SystemExit`, `KeyboardInterrupt`) comes back. `keep`: debug mode wants
    /// to name the callback afterwards.
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
        let context = handle
            .context
            .look(py, |context| context.map(|context| context.to_enter(py)));
        let Some(context) = context else {
            return Ok(());
        };
        let result = context::run(py, &context, &call.callback, &call.arguments);
        context.drop_ref(py);
        match result {
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
    let owner = slf.get().owner(py)?;
    // Its value as such has no traceback before Python 3.12.
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

    fn get_context(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.context
            .look(py, |context| context.map(|context| context.to_show(py)))
    }

    fn _run(slf: &Bound<'_, Self>) -> PyResult<()> {
        Handle::run(slf, slf.get().in_debug(slf.py()))
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
        let kept = slf.get().origin.look(py, |origin| {
            let repr = origin.and_then(|origin| origin.repr.as_ref());
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
        self.call
            .look(py, |call| call.map(|call| call.callback.clone_ref(py)))
    }

    #[getter(_args)]
    fn arguments(&self, py: Python<'_>) -> PyResult<Option<Py<PyTuple>>> {
        // Making a tuple may start the collector: not from inside the slot.
        let call = self
            .call
            .look(py, |call| call.map(|call| call.arguments.clone_ref(py)));
        call.map(|arguments| arguments.to_tuple(py)).transpose()
    }

    #[getter(_context)]
    fn context_attribute(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.context
            .look(py, |context| context.map(|context| context.to_show(py)))
    }

    #[getter(_loop)]
    fn event_loop(&self, py: Python<'_>) -> Option<Py<Loop>> {
        self.owner.cloned(py)
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
        self.context
            .visit(|context| visit.call(context.map(HandleContext::object)))?;
        self.owner.visit(|owner| visit.call(owner))?;
        self.call.visit(|call| match call {
            Some(call) => {
                visit.call(&call.callback)?;
                call.arguments.traverse(visit)
            }
            None => Ok(()),
        })
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.call.take(py));
    }
}

impl Handle {
    /// The context, for the collector: see `loop_traverse`.
    pub fn context_pointer(&self) -> Option<*mut ffi::PyObject> {
        self.context
            .visit(|context| context.map(|context| context.object().as_ptr()))
    }
}
