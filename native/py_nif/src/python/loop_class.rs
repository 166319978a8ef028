//! `_native.Loop`: the native base of `erlang_loop.ErlangEventLoop`.
//!
//! It has what runs on every callback: the ready queue, timers, fds, the turn. Everything rare
//! comes from asyncio's own loop, the other base of that class.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use event_loop::{now_ns, Direction, TimerHeap, WaitPolicy};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::between::{self, Waiting as Beside};
use super::fd_callbacks::{FdTable, MODE};
use super::gil_cell::GilCell;
use super::handle::Handle;
use super::loop_requests::Requested;
use super::read_buffer::ReadBuffer;
use super::ready::{Item, ReadyQueue};
use super::timer_handle::{Scheduled, TimerHandle};
use super::transports::StreamTransport;
use super::waiting::Waiting;
use super::{errors, loop_thread, stacks, turn};
use crate::beam::message::{self, Sender};
use crate::beam::resource::Ref;
use crate::loops::{registry, LoopRef, NativeLoop, Pulse};

#[pyclass(subclass, frozen, module = "erlang_loop._native")]
pub struct Loop {
    /// False while CPython makes the object: giving an instance of a Python subclass its
    /// `__dict__` may start the collector, which then sees these fields as zeroes.
    born: bool,
    /// Let go of by `close()`, and its fds with it.
    pub(super) native: GilCell<Option<Arc<NativeLoop>>>,
    id: u64,
    /// Kept by an isolated loop: its worker holds the same resource.
    reference: Option<Ref<LoopRef>>,
    pub debug: GilCell<bool>,
    pub stopping: GilCell<bool>,
    pub(super) closed: GilCell<bool>,
    /// `threading.get_ident()` of the thread that runs the loop.
    thread: GilCell<Option<u64>>,
    pub ready: GilCell<ReadyQueue>,
    pub timers: GilCell<TimerHeap<Scheduled>>,
    pub fds: GilCell<FdTable>,
    /// Absent while a thread waits.
    pub waiting: GilCell<Option<Box<Waiting>>>,
    /// Whether something waits in `beside`.
    pub between: GilCell<bool>,
    /// Microtasks, and callbacks of other priorities.
    pub beside: GilCell<Beside>,
    /// Nanoseconds after which a handler is named (`blocking`).
    pub threshold: GilCell<Option<u64>>,
    pub last_look: GilCell<u64>,
    /// Counts callbacks, so that a transport knows whether it wrote in this one before.
    pub(super) callbacks: GilCell<u64>,
    /// Transports with data that waits for the end of the callback.
    pub unflushed: GilCell<Vec<Py<StreamTransport>>>,
    pub read_buffer: GilCell<ReadBuffer>,
    /// The asyncio tasks that Erlang waits for, by the number of the request.
    pub requested: GilCell<HashMap<u64, Requested>>,
    /// Started by Erlang: its end is orderly, see `loop_thread`.
    pub served: bool,
}

/// Seconds on the loop's clock as nanoseconds, rounded up so that nothing is early. Negative
/// times and NaN are "now", infinity is never.
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).ceil() as u64
}

#[pymethods]
impl Loop {
    /// `spin` and `direct_wait` (seconds) tune how the loop waits before it parks; 0 turns the
    /// step off.
    #[new]
    #[pyo3(signature = (*, isolated=false, spin=None, direct_wait=None))]
    fn new(isolated: bool, spin: Option<f64>, direct_wait: Option<f64>) -> PyResult<Self> {
        let mut policy = WaitPolicy::default();
        for (value, name) in [(spin, "spin"), (direct_wait, "direct_wait")] {
            if value.is_some_and(|seconds| !(0.0..=3600.0).contains(&seconds)) {
                let text = format!("{name} must be between 0 and 3600 seconds");
                return Err(PyValueError::new_err(text));
            }
        }
        if let Some(spin) = spin {
            policy.spin_max_ns = nanoseconds(spin);
            policy.spin_start_ns = policy.spin_start_ns.min(policy.spin_max_ns);
        }
        if let Some(direct) = direct_wait {
            policy.direct_ns = nanoseconds(direct);
        }
        let given = loop_thread::take_given();
        let served = given.is_some();
        let (native, reference) = match given {
            Some((native, reference)) => (native, Some(reference)),
            None => {
                let native = NativeLoop::for_python(policy).map_err(errors::raised)?;
                let reference = isolated.then(|| Ref::new(LoopRef::to(&native)));
                (native, reference)
            }
        };
        if let (false, Some(reference), Some(router)) =
            (served, &reference, registry::default_router())
        {
            // Without a router (the application is not running) the loop waits by itself.
            let request = (crate::atoms::start_worker(), reference.clone());
            let _ = message::send(Sender::Thread, &router, request);
        }
        Ok(Loop {
            born: true,
            waiting: GilCell::new(Some(Box::new(Waiting::new(&native)))),
            id: native.id,
            native: GilCell::new(Some(native)),
            reference,
            debug: GilCell::default(),
            stopping: GilCell::default(),
            closed: GilCell::default(),
            thread: GilCell::default(),
            ready: GilCell::default(),
            timers: GilCell::default(),
            fds: GilCell::default(),
            last_look: GilCell::default(),
            between: GilCell::default(),
            beside: GilCell::default(),
            threshold: GilCell::default(),
            callbacks: GilCell::new(1),
            unflushed: GilCell::default(),
            read_buffer: GilCell::default(),
            requested: GilCell::default(),
            served,
        })
    }

    // ---- callbacks ----

    #[pyo3(signature = (callback, *args, context=None))]
    fn call_soon(
        slf: &Bound<'_, Self>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Handle>> {
        let py = slf.py();
        let this = slf.get();
        this.check_closed(py)?;
        if this.debug.get(py) {
            Self::check_debug(slf, &callback, "call_soon", true)?;
        }
        let handle = Handle::build(slf, callback, args, context)?.into_short_lived(py)?;
        this.push(py, handle.clone_ref(py));
        Ok(handle)
    }

    /// As `call_soon`, from any thread; the GIL guards the queue, and a sleeping loop is woken.
    #[pyo3(signature = (callback, *args, context=None))]
    fn call_soon_threadsafe(
        slf: &Bound<'_, Self>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Handle>> {
        let py = slf.py();
        let this = slf.get();
        this.check_closed(py)?;
        if this.debug.get(py) {
            Self::check_debug(slf, &callback, "call_soon_threadsafe", false)?;
        }
        let handle = Handle::build(slf, callback, args, context)?.into_short_lived(py)?;
        this.push(py, handle.clone_ref(py));
        this.wake(py);
        Ok(handle)
    }

    /// As `call_soon`, but it runs right after the callback that is running, before any other.
    #[pyo3(signature = (callback, *args, context=None))]
    fn queue_microtask(
        slf: &Bound<'_, Self>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Handle>> {
        let py = slf.py();
        let this = slf.get();
        this.check_closed(py)?;
        if this.debug.get(py) {
            Self::check_debug(slf, &callback, "queue_microtask", true)?;
        }
        let handle = Handle::build(slf, callback, args, context)?.into_short_lived(py)?;
        between::queue_microtask(slf, handle.clone_ref(py))?;
        Ok(handle)
    }

    #[pyo3(signature = (delay, callback, *args, context=None))]
    fn call_later(
        slf: &Bound<'_, Self>,
        delay: Option<f64>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<TimerHandle>> {
        let Some(delay) = delay else {
            return Err(PyTypeError::new_err("delay must not be None"));
        };
        let this = slf.get();
        this.check_closed(slf.py())?;
        if this.debug.get(slf.py()) {
            Self::check_debug(slf, &callback, "call_later", true)?;
        }
        Self::schedule(slf, this.time() + delay, callback, args, context)
    }

    #[pyo3(signature = (when, callback, *args, context=None))]
    fn call_at(
        slf: &Bound<'_, Self>,
        when: Option<f64>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<TimerHandle>> {
        let Some(when) = when else {
            return Err(PyTypeError::new_err("when cannot be None"));
        };
        let this = slf.get();
        this.check_closed(slf.py())?;
        if this.debug.get(slf.py()) {
            Self::check_debug(slf, &callback, "call_at", true)?;
        }
        Self::schedule(slf, when, callback, args, context)
    }

    /// Seconds on the monotonic clock: the same as `time.monotonic()`.
    fn time(&self) -> f64 {
        now_ns() as f64 / 1e9
    }

    // ---- fds ----

    #[pyo3(signature = (fd, callback, *args))]
    fn _add_reader(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
    ) -> PyResult<Py<Handle>> {
        slf.get().check_closed(slf.py())?;
        let handle = Handle::build(slf, callback, args, None)?;
        Self::watch(slf, fd, Direction::Read, MODE, handle)
    }

    #[pyo3(signature = (fd, callback, *args))]
    fn _add_writer(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
    ) -> PyResult<Py<Handle>> {
        slf.get().check_closed(slf.py())?;
        let handle = Handle::build(slf, callback, args, None)?;
        Self::watch(slf, fd, Direction::Write, MODE, handle)
    }

    fn _remove_reader(&self, fd: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.unwatch(fd, Direction::Read)
    }

    fn _remove_writer(&self, fd: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.unwatch(fd, Direction::Write)
    }

    /// `(reader, writer)` of an fd, for the `_selector` view.
    fn _fd_handles(&self, py: Python<'_>, fd: i32) -> (Option<Py<Handle>>, Option<Py<Handle>>) {
        self.fds.with(py, |fds| {
            (
                fds.handle(py, fd, Direction::Read),
                fds.handle(py, fd, Direction::Write),
            )
        })
    }

    /// The fds that have a reader or a writer.
    fn _watched_fds(&self, py: Python<'_>) -> Vec<i32> {
        self.fds.with(py, |fds| fds.fds())
    }

    // ---- the queues, for `_ready` and `_scheduled` (python/erlang_loop/queue_views.py) ----

    fn _ready_handles(&self, py: Python<'_>) -> Vec<Py<Handle>> {
        // Native transports wait in the same queue; what they do has no handle.
        let cloned = |item: &Item| match item {
            Item::Callback(handle) => Some(handle.clone_ref(py)),
            _ => None,
        };
        self.ready
            .with(py, |ready| ready.iter().filter_map(cloned).collect())
    }

    fn _ready_append(&self, py: Python<'_>, handle: Py<Handle>) {
        self.push(py, handle);
    }

    fn _ready_clear(&self, py: Python<'_>) {
        drop(self.ready.replace(py, VecDeque::new()));
    }

    /// In no order.
    fn _timer_handles(&self, py: Python<'_>) -> Vec<Py<Handle>> {
        let cloned = |timer: &Scheduled| timer.0.clone_ref(py);
        self.timers
            .with(py, |timers| timers.iter().map(cloned).collect())
    }

    fn _timers_clear(&self, py: Python<'_>) {
        drop(self.timers.replace(py, TimerHeap::new()));
    }

    /// Wakes the loop from any thread, as asyncio's own loops do by writing to a pipe.
    fn _write_to_self(&self, py: Python<'_>) {
        self.wake(py);
    }

    // ---- running ----

    /// One turn: wait if there is nothing to run, then run what is ready.
    fn _run_once(slf: &Bound<'_, Self>) -> PyResult<()> {
        let result = turn::run(slf);
        slf.get().with_pulse(slf.py(), Pulse::rests);
        result
    }

    /// Turns until `stop()`.
    fn _run_turns(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        // The first turn always looks at the fds, however short ago the last one did.
        this.last_look.set(slf.py(), 0);
        this.with_pulse(slf.py(), |pulse| pulse.runs_on(stacks::this_thread()));
        let result = loop {
            let result = turn::run(slf);
            if result.is_err() || this.stopping.get(slf.py()) {
                break result;
            }
        };
        this.with_pulse(slf.py(), Pulse::rests);
        result
    }

    fn stop(&self, py: Python<'_>) {
        self.stopping.set(py, true);
    }

    fn get_debug(&self, py: Python<'_>) -> bool {
        self.debug.get(py)
    }

    fn is_closed(&self, py: Python<'_>) -> bool {
        self.closed.get(py)
    }

    fn is_running(&self, py: Python<'_>) -> bool {
        self.thread.get(py).is_some()
    }

    /// Ends the native loop: the last step of `close()`.
    fn _close_native(&self, py: Python<'_>) {
        let ready = self.ready.replace(py, VecDeque::new());
        let timers = self.timers.replace(py, TimerHeap::new());
        let fds = self.fds.replace(py, FdTable::default());
        let requested = self.requested.replace(py, HashMap::new());
        let beside = self.beside.with(py, |beside| beside.take_all());
        let native = self.native.replace(py, None);
        py.detach(|| native.map(|native| native.close(Sender::Thread)));
        drop((ready, timers, fds, requested, beside));
    }

    // ---- attributes of asyncio's loops that live here ----

    #[getter(_debug)]
    fn debug_attribute(&self, py: Python<'_>) -> bool {
        self.debug.get(py)
    }

    #[setter(_debug)]
    fn set_debug_attribute(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.debug.set(value.py(), value.is_truthy()?);
        Ok(())
    }

    #[getter(_stopping)]
    fn stopping_attribute(&self, py: Python<'_>) -> bool {
        self.stopping.get(py)
    }

    #[setter(_stopping)]
    fn set_stopping_attribute(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.stopping.set(value.py(), value.is_truthy()?);
        Ok(())
    }

    #[getter(_closed)]
    fn closed_attribute(&self, py: Python<'_>) -> bool {
        self.closed.get(py)
    }

    #[setter(_closed)]
    fn set_closed_attribute(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.closed.set(value.py(), value.is_truthy()?);
        Ok(())
    }

    #[getter(_thread_id)]
    fn thread_attribute(&self, py: Python<'_>) -> Option<u64> {
        self.thread.get(py)
    }

    #[setter(_thread_id)]
    fn set_thread_attribute(&self, py: Python<'_>, value: Option<u64>) {
        self.thread.set(py, value);
    }

    /// What names the native loop of an isolated loop; None for a shared one.
    #[getter(_loop_handle)]
    fn loop_handle(&self) -> Option<u64> {
        self.reference.as_ref().map(|_| self.id)
    }

    /// What the loop has done so far.
    fn _counters(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<&'static str, u64>> {
        Ok(self.native(py)?.core.counters.snapshot().iter().collect())
    }

    // ---- garbage collection ----

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !self.born {
            return Ok(());
        }
        let mut result = Ok(());
        self.ready
            .visit(|ready| result = ready.iter().try_for_each(|item| item.traverse(visit)));
        result?;
        let mut result = Ok(());
        self.beside.visit(|beside| result = beside.traverse(visit));
        result?;
        let mut result = Ok(());
        self.timers
            .visit(|timers| result = timers.iter().try_for_each(|timer| visit.call(&timer.0)));
        result?;
        let mut result = Ok(());
        self.requested
            .visit(|tasks| result = tasks.values().try_for_each(|task| task.traverse(visit)));
        result?;
        let mut result = Ok(());
        self.fds
            .visit(|fds| result = fds.watchers().try_for_each(|one| one.traverse(visit)));
        result
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.ready.replace(py, VecDeque::new()));
        drop(self.timers.replace(py, TimerHeap::new()));
        drop(self.fds.replace(py, FdTable::default()));
        drop(self.requested.replace(py, HashMap::new()));
        drop(self.beside.with(py, |beside| beside.take_all()));
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Never closed by its program: nothing must be left in the VM.
        if let Some(native) = self.native.take_owned() {
            native.close(Sender::Thread);
        }
    }
}
