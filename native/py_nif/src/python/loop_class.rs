//! `_native.Loop`: the native base of `erlang_loop.ErlangEventLoop`.
//!
//! It has what runs on every callback: the ready queue, timers, fds, the turn. Everything rare
//! comes from asyncio's own loop, the other base of that class. `call_soon` and the like are in
//! `loop_methods`.

use std::collections::VecDeque;
use std::sync::Arc;

use event_loop::{now_ns, Direction, NumberMap, TimerHeap, WaitPolicy};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyWeakrefReference};

use super::between::Waiting as Beside;
use super::callers::Callers;
use super::fd_callbacks::{FdTable, MODE};
use super::gil_cell::GilCell;
use super::gil_slot::GilSlot;
use super::gil_value::GilValue;
use super::handle::{Call, Handle};
use super::loop_clock::{self, Clock};
use super::loop_requests::Requested;
use super::read_buffer::ReadBuffer;
use super::ready::{Item, ReadyQueue};
use super::spare_bytes::SpareBytes;
use super::timer_handle::Scheduled;
use super::transports::{StreamTransport, Transport, TransportTable};
use super::waiting::Waiting;
use super::{errors, loop_thread, stacks, turn};
use crate::beam::message::{self, Sender};
use crate::beam::resource::Ref;
use crate::loops::{registry, LoopRef, NativeLoop, Pulse};
use crate::output::Origin;

#[pyclass(subclass, frozen, module = "erlang_loop._native")]
pub struct Loop {
    /// False while CPython makes the object: giving an instance of a Python subclass its
    /// `__dict__` may start the collector, which then sees these fields as zeroes.
    pub(super) born: bool,
    /// Let go of by `close()`, and its fds with it.
    pub(super) native: GilCell<Option<Arc<NativeLoop>>>,
    pub(super) id: u64,
    /// Kept by an isolated loop: its worker holds the same resource.
    reference: Option<Ref<LoopRef>>,
    pub debug: GilValue<bool>,
    pub stopping: GilValue<bool>,
    pub(super) closed: GilValue<bool>,
    /// `threading.get_ident()` of the thread that runs the loop.
    thread: GilValue<Option<u64>>,
    pub ready: GilCell<ReadyQueue>,
    pub timers: GilCell<TimerHeap<Scheduled>>,
    pub clock: GilValue<Clock>,
    pub fds: GilCell<FdTable>,
    /// Absent while a thread waits.
    pub waiting: GilCell<Option<Box<Waiting>>>,
    /// Whether something waits in `beside`.
    pub between: GilValue<bool>,
    /// Microtasks, and callbacks of other priorities.
    pub beside: GilCell<Beside>,
    /// Nanoseconds after which a handler is named (`blocking`).
    pub threshold: GilValue<Option<u64>>,
    pub last_look: GilValue<u64>,
    /// When the loop last began to wait.
    pub rests_since: GilValue<u64>,
    /// When the clock was last read at the beginning of a turn ([`event_loop::ticks`]).
    pub last_clocked: GilValue<u64>,
    /// `_before_sleep()` is to be called.
    pub before_sleep: GilValue<bool>,
    /// Counts callbacks, so that a transport knows whether it wrote in this one before.
    pub(super) callbacks: GilValue<u64>,
    /// Transports with data that waits for the end of the callback.
    pub unflushed: GilCell<Vec<Py<StreamTransport>>>,
    pub read_buffer: GilCell<ReadBuffer>,
    pub spare_bytes: SpareBytes,
    pub transports: GilCell<TransportTable>,
    /// The asyncio tasks that Erlang waits for, by the number of the request.
    pub requested: GilCell<NumberMap<Requested>>,
    /// Who asked for them, and others before.
    pub(super) callers: GilCell<Callers>,
    pub(super) task_factory: GilSlot<Py<PyAny>>,
    /// See `loop_futures`.
    pub(super) named_loop: GilSlot<Py<PyDict>>,
    pub(super) named_task: GilSlot<Py<PyDict>>,
    /// Started by Erlang: its end is orderly, see `loop_thread`.
    pub served: bool,
    /// Its init code has ended: requests are taken.
    pub is_begun: GilValue<bool>,
    /// The process that started it, if Erlang did.
    pub origin: Option<Arc<Origin>>,
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
            policy.wait_directly(nanoseconds(direct));
        }
        let given = loop_thread::take_given();
        let served = given.is_some();
        let (native, waiting, origin) = match given {
            Some(given) => {
                let waiting = Waiting::new(&given.native).noting(given.load);
                (given.native, waiting, Some(given.origin))
            }
            None => {
                let native = NativeLoop::for_python(policy).map_err(errors::raised)?;
                let waiting = Waiting::new(&native);
                (native, waiting, None)
            }
        };
        let reference = (isolated && !served).then(|| Ref::new(LoopRef::to(&native)));
        if let (Some(reference), Some(router)) = (&reference, registry::default_router()) {
            // Without a router (the application is not running) the loop waits by itself.
            let request = (crate::atoms::start_worker(), reference.clone());
            let _ = message::send(Sender::Thread, &router, request);
        }
        Ok(Loop {
            born: true,
            waiting: GilCell::new(Some(Box::new(waiting))),
            id: native.id,
            native: GilCell::new(Some(native)),
            reference,
            debug: GilValue::default(),
            stopping: GilValue::default(),
            closed: GilValue::default(),
            thread: GilValue::default(),
            ready: GilCell::default(),
            timers: GilCell::default(),
            clock: GilValue::default(),
            fds: GilCell::default(),
            last_look: GilValue::default(),
            rests_since: GilValue::default(),
            last_clocked: GilValue::default(),
            before_sleep: GilValue::default(),
            between: GilValue::default(),
            beside: GilCell::default(),
            threshold: GilValue::default(),
            callbacks: GilValue::new(1),
            unflushed: GilCell::default(),
            read_buffer: GilCell::default(),
            spare_bytes: SpareBytes::default(),
            transports: GilCell::default(),
            requested: GilCell::default(),
            callers: GilCell::default(),
            task_factory: GilSlot::new(None),
            named_loop: GilSlot::new(None),
            named_task: GilSlot::new(None),
            served,
            is_begun: GilValue::default(),
            origin,
        })
    }

    // ---- the clock ----

    /// Whose `time` the class has, ours or a subclass's.
    fn _look_at_clock(slf: &Bound<'_, Self>) -> PyResult<()> {
        loop_clock::look_at_class(slf)
    }

    fn __setattr__(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        loop_clock::set_attribute(slf, name, Some(value))
    }

    fn __delattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>) -> PyResult<()> {
        loop_clock::set_attribute(slf, name, None)
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
        let handle = Handle::build(slf, Call::new(callback, args), None)?;
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
        let handle = Handle::build(slf, Call::new(callback, args), None)?;
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

    /// The transport of an fd.
    fn _transport_of(&self, py: Python<'_>, fd: i32) -> Option<Py<PyAny>> {
        self.transport_of(py, fd)
    }

    /// All transports over sockets, with their fds.
    fn _all_transports(&self, py: Python<'_>) -> Vec<(i32, Py<PyAny>)> {
        let mut all = self.transports.with(py, |all| all.all(py));
        all.extend(self.fds.with(py, |fds| fds.transports(py)));
        all
    }

    /// Lists a transport: one that is not ours, or that was taken out.
    fn _put_transport(&self, fd: i32, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = transport.py();
        if let Ok(ours) = transport.cast::<Transport>() {
            ours.get().listed.set(py, true);
            if ours.get().is_watching(py) {
                return Ok(());
            }
        }
        let weak = PyWeakrefReference::new(transport)?.unbind();
        drop(self.transports.with(py, |all| all.put(fd, weak)));
        Ok(())
    }

    /// False if there was none.
    fn _take_transport(&self, py: Python<'_>, fd: i32) -> bool {
        let taken = self.transports.with(py, |all| all.take(fd));
        let watched = self.fds.with(py, |fds| fds.transport(py, fd));
        let unlisted = watched.is_some_and(|transport| transport.get().listed.replace(py, false));
        taken.is_some() || unlisted
    }

    // ---- the queues, for `_ready` and `_scheduled` (python/erlang_loop/queue_views.py) ----

    fn _ready_handles(&self, py: Python<'_>) -> Vec<Py<Handle>> {
        // Native transports wait in the same queue; what they do has no handle.
        let cloned = |item: &Item| item.callback().map(|handle| handle.clone_ref(py));
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
        let cloned = |timer: &Scheduled| {
            Handle::notice(&timer.0);
            timer.0.clone_ref(py)
        };
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

    /// One turn: wait if there is nothing to run, then run what is ready. Also in a callback of the
    /// same loop, which then goes on.
    fn _run_once(slf: &Bound<'_, Self>) -> PyResult<()> {
        loop_clock::look_at_class(slf)?;
        let py = slf.py();
        let this = slf.get();
        let mut is_inside = false;
        this.with_pulse(py, |pulse| {
            is_inside = pulse.is_awake();
            pulse.runs_on(stacks::this_thread());
        });
        let result = turn::run(slf);
        this.settle_timers(py);
        this.with_pulse(py, |pulse| match is_inside {
            true => pulse.turned(now_ns()),
            false => pulse.rests(),
        });
        result
    }

    /// Turns until `stop()`.
    fn _run_turns(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        loop_clock::look_at_class(slf)?;
        // The first turn always looks at the fds, however short ago the last one did.
        this.last_look.set(slf.py(), 0);
        this.with_pulse(slf.py(), |pulse| pulse.runs_on(stacks::this_thread()));
        let result = loop {
            let result = turn::run(slf);
            if result.is_err() || this.stopping.get(slf.py()) {
                break result;
            }
        };
        this.settle_timers(slf.py());
        this.with_pulse(slf.py(), Pulse::rests);
        result
    }

    /// Has `_before_sleep()` called, once, in the next turn that has nothing to run.
    fn _call_before_sleep(&self, py: Python<'_>) {
        self.before_sleep.set(py, true);
    }

    fn stop(&self, py: Python<'_>) {
        self.stopping.set(py, true);
    }

    pub(super) fn is_running(&self, py: Python<'_>) -> bool {
        self.thread.get(py).is_some()
    }

    /// Ends the native loop: the last step of `close()`.
    fn _close_native(&self, py: Python<'_>) {
        let ready = self.ready.replace(py, VecDeque::new());
        let timers = self.timers.replace(py, TimerHeap::new());
        let fds = self.fds.replace(py, FdTable::default());
        let requested = self.requested.replace(py, NumberMap::default());
        let callers = self.callers.replace(py, Callers::default());
        let beside = self.beside.with(py, |beside| beside.take_all());
        let native = self.native.replace(py, None);
        drop((self.named_loop.take(py), self.named_task.take(py)));
        py.detach(|| native.map(|native| native.close(Sender::Thread)));
        drop((ready, timers, fds, requested, callers, beside));
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

    #[getter(_task_factory)]
    fn task_factory_attribute(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.task_factory.cloned(py)
    }

    #[setter(_task_factory)]
    fn set_task_factory_attribute(&self, py: Python<'_>, value: Option<Py<PyAny>>) {
        drop(self.task_factory.replace(py, value));
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
        (self.served || self.reference.is_some()).then_some(self.id)
    }

    /// What the loop has done so far.
    fn _counters(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<&'static str, u64>> {
        Ok(self.native(py)?.core.counters.snapshot().iter().collect())
    }

    // ---- garbage collection; handles are the business of `loop_traverse` ----

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !self.born {
            return Ok(());
        }
        self.task_factory.visit(|factory| visit.call(factory))?;
        self.named_loop.visit(|named| visit.call(named))?;
        self.named_task.visit(|named| visit.call(named))?;
        let mut result = Ok(());
        self.ready
            .visit(|ready| result = ready.iter().try_for_each(|item| item.traverse(visit)));
        result?;
        let mut result = Ok(());
        self.requested
            .visit(|tasks| result = tasks.values().try_for_each(|task| task.traverse(visit)));
        result?;
        let mut result = Ok(());
        self.callers
            .visit(|callers| result = callers.traverse(visit));
        result?;
        let mut result = Ok(());
        self.fds
            .visit(|fds| result = fds.all().try_for_each(|one| one.traverse(visit)));
        result
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.ready.replace(py, VecDeque::new()));
        drop(self.timers.replace(py, TimerHeap::new()));
        drop(self.fds.replace(py, FdTable::default()));
        drop(self.requested.replace(py, NumberMap::default()));
        drop(self.callers.replace(py, Callers::default()));
        drop((self.task_factory.take(py), self.named_loop.take(py)));
        drop(self.named_task.take(py));
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
