//! `_native.Loop`: the native base of `erlang_loop.ErlangEventLoop`.
//!
//! It contains what runs for every callback: the ready queue, timers, fds, the turn. Everything
//! rare comes from asyncio's own loop, the other base of that class. `call_soon` and similar
//! methods are in `methods`.

use std::collections::VecDeque;
use std::sync::Arc;

use event_loop::{Direction, TimerHeap, WaitPolicy, now_ns};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyWeakrefReference};

use super::fd_callbacks::MODE;
use super::loop_arguments;
use super::loop_clock;
use super::parts::{
    Callbacks, Creation, Files, LoopKind, LoopState, LoopWait, Prioritized, ServedParts, Timers,
};
use super::request_tasks;
use crate::asyncio::handles::handle::{Call, Handle};
use crate::asyncio::handles::ready::{Item, ReadyQueue};
use crate::asyncio::handles::timer_handle::Scheduled;
use crate::asyncio::turn::run_once;
use crate::asyncio::turn::wait_steps::WaitSteps;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::convert::Pid;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::errors;
use crate::cpython::sampling::PythonThread;
use crate::loops::{LoopRef, NativeLoop, Pulse, registry};

#[pyclass(subclass, frozen, module = "erlang_loop._native")]
pub struct Loop {
    /// False while CPython creates the object: creating the `__dict__` of an instance of a Python
    /// subclass may start the collector, which then sees these fields as zeroes.
    pub born: bool,
    /// `close()` drops it, and with it the fds.
    pub native: GilCell<Option<Arc<NativeLoop>>>,
    pub id: u64,
    pub kind: LoopKind,
    pub state: LoopState,
    pub ready: GilCell<ReadyQueue>,
    pub priorities: Prioritized,
    pub timers: Timers,
    pub files: Files,
    pub waiting: LoopWait,
    pub callbacks: Callbacks,
    pub creation: Creation,
}

/// Converts seconds on the loop's clock to nanoseconds, rounded up so that nothing is early.
/// Negative times and NaN mean "now", infinity means never.
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).ceil() as u64
}

#[pymethods]
impl Loop {
    /// `spin` and `direct_wait` (seconds) set how the loop waits before it parks; 0 turns the step
    /// off.
    #[new]
    #[pyo3(signature = (isolated=false, *, spin=None, direct_wait=None))]
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
        let arguments = loop_arguments::take();
        let (native, wait_steps, kind) = match arguments {
            Some(arguments) => {
                let wait_steps = WaitSteps::new(&arguments.native).recording(arguments.busy);
                let served = ServedParts {
                    take_requests: arguments.take_requests,
                    is_begun: GilSlot::default(),
                    origin: arguments.origin,
                    request_tasks: GilCell::default(),
                    own_context: GilSlot::new(None),
                };
                (
                    arguments.native,
                    wait_steps,
                    LoopKind::Served(Box::new(served)),
                )
            }
            None => {
                let native = NativeLoop::for_python(policy).map_err(errors::raised)?;
                let wait_steps = WaitSteps::new(&native);
                let kind = match isolated {
                    true => LoopKind::Isolated(Ref::new(LoopRef::to(&native))),
                    false => LoopKind::Shared,
                };
                (native, wait_steps, kind)
            }
        };
        if let (LoopKind::Isolated(reference), Some(router)) = (&kind, registry::default_router()) {
            // Without a router (the application is not running) the loop waits by itself.
            let request = (crate::atoms::start_worker(), reference.clone());
            let _ = message::send(Sender::Thread, &router, request);
        }
        Ok(Loop {
            born: true,
            id: native.id,
            kind,
            state: LoopState::default(),
            ready: GilCell::default(),
            priorities: Prioritized::default(),
            timers: Timers::default(),
            files: Files::default(),
            waiting: LoopWait {
                steps: GilCell::new(Some(Box::new(wait_steps))),
                since: GilSlot::default(),
                before_sleep: GilSlot::default(),
            },
            callbacks: Callbacks {
                number: GilSlot::new(1),
                interruptible: native.pulse.callbacks.clone(),
                threshold: GilSlot::default(),
            },
            creation: Creation::default(),
            native: GilCell::new(Some(native)),
        })
    }

    // ---- the clock ----

    /// Checks which `time` the class has, ours or a subclass's.
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

    #[pyo3(signature = (fd, callback, *args, context=None))]
    fn _add_reader(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Handle>> {
        slf.get().check_closed(slf.py())?;
        let handle = Handle::build(slf, Call::new(callback, args), context)?;
        Self::watch(slf, fd, Direction::Read, MODE, handle)
    }

    #[pyo3(signature = (fd, callback, *args, context=None))]
    fn _add_writer(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: Bound<'_, PyAny>,
        args: Bound<'_, PyTuple>,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<Handle>> {
        slf.get().check_closed(slf.py())?;
        let handle = Handle::build(slf, Call::new(callback, args), context)?;
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
        self.files.fds.with(py, |fds| {
            (
                fds.handle(py, fd, Direction::Read),
                fds.handle(py, fd, Direction::Write),
            )
        })
    }

    /// The fds that have a reader or a writer.
    fn _watched_fds(&self, py: Python<'_>) -> Vec<i32> {
        self.files.fds.with(py, |fds| fds.fds())
    }

    /// The transport of an fd.
    fn _transport_of(&self, py: Python<'_>, fd: i32) -> Option<Py<PyAny>> {
        self.transport_of(py, fd)
    }

    /// All transports over sockets, with their fds.
    fn _all_transports(&self, py: Python<'_>) -> Vec<(i32, Py<PyAny>)> {
        self.files
            .transports
            .with(py, |transports| transports.all(py))
    }

    pub fn _put_transport(&self, fd: i32, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let weak = PyWeakrefReference::new(transport)?.unbind();
        let transports = &self.files.transports;
        drop(transports.with(transport.py(), |transports| transports.put(fd, weak)));
        Ok(())
    }

    /// False if there was none.
    pub fn _take_transport(&self, py: Python<'_>, fd: i32) -> bool {
        let taken = self
            .files
            .transports
            .with(py, |transports| transports.take(fd));
        taken.is_some()
    }

    // ---- the queues, for `_ready` and `_scheduled` (python/erlang_loop/loop/views/queues.py) ----

    fn _ready_handles(&self, py: Python<'_>) -> Vec<Py<Handle>> {
        // Native transports are in the same queue; they have no handle.
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
        let cloned = |timer: &Scheduled| timer.0.clone_ref(py);
        self.timers
            .heap
            .with(py, |timers| timers.iter().map(cloned).collect())
    }

    fn _timers_clear(&self, py: Python<'_>) {
        drop(self.timers.heap.replace(py, TimerHeap::new()));
    }

    /// Wakes the loop from any thread, as asyncio's own loops do by writing to a pipe.
    fn _write_to_self(&self, py: Python<'_>) {
        self.wake(py);
    }

    // ---- running ----

    /// One turn: wait if there is nothing to run, then run what is ready. May be called in a
    /// callback of the same loop, which then continues.
    fn _run_once(slf: &Bound<'_, Self>) -> PyResult<()> {
        loop_clock::look_at_class(slf)?;
        let py = slf.py();
        let this = slf.get();
        let mut is_inside = false;
        this.with_pulse(py, |pulse| {
            is_inside = pulse.is_awake();
            pulse.runs_on(PythonThread::this(slf.py()));
        });
        let result = run_once::run(slf);
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
        this.with_pulse(slf.py(), |pulse| {
            pulse.runs_on(PythonThread::this(slf.py()))
        });
        let result = loop {
            let result = run_once::run(slf);
            if result.is_err() || this.state.stopping.get(slf.py()) {
                break result;
            }
        };
        this.with_pulse(slf.py(), Pulse::rests);
        result
    }

    /// Makes the next turn that has nothing to run call `_before_sleep()`, once.
    fn _call_before_sleep(&self, py: Python<'_>) {
        self.waiting.before_sleep.set(py, true);
    }

    fn stop(&self, py: Python<'_>) {
        self.state.stopping.set(py, true);
    }

    pub fn is_running(&self, py: Python<'_>) -> bool {
        self.state.thread.get(py).is_some()
    }

    /// Ends the native loop: the last step of `close()`.
    fn _close_native(&self, py: Python<'_>) {
        let ready = self.ready.replace(py, VecDeque::new());
        let native = self.native.replace(py, None);
        py.detach(|| native.map(|native| native.close(Sender::Thread)));
        drop(ready);
        self.priorities.clear(py);
        self.timers.clear(py);
        self.files.clear(py);
        if let Some(served) = self.served() {
            served.clear(py);
        }
        self.creation.clear_arguments(py);
    }

    // ---- attributes of asyncio's loops that live here ----

    #[getter(_debug)]
    fn debug_attribute(&self, py: Python<'_>) -> bool {
        self.state.debug.get(py)
    }

    #[setter(_debug)]
    fn set_debug_attribute(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.state.debug.set(value.py(), value.is_truthy()?);
        Ok(())
    }

    #[getter(_stopping)]
    fn stopping_attribute(&self, py: Python<'_>) -> bool {
        self.state.stopping.get(py)
    }

    #[setter(_stopping)]
    fn set_stopping_attribute(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.state.stopping.set(value.py(), value.is_truthy()?);
        Ok(())
    }

    #[getter(_closed)]
    fn closed_attribute(&self, py: Python<'_>) -> bool {
        self.state.closed.get(py)
    }

    #[setter(_closed)]
    fn set_closed_attribute(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.state.closed.set(value.py(), value.is_truthy()?);
        Ok(())
    }

    #[getter(_task_factory)]
    fn task_factory_attribute(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.creation.task_factory.cloned(py)
    }

    #[setter(_task_factory)]
    fn set_task_factory_attribute(&self, py: Python<'_>, value: Option<Py<PyAny>>) {
        drop(self.creation.task_factory.replace(py, value));
    }

    #[getter(_thread_id)]
    fn thread_attribute(&self, py: Python<'_>) -> Option<u64> {
        self.state.thread.get(py)
    }

    #[setter(_thread_id)]
    fn set_thread_attribute(&self, py: Python<'_>, value: Option<u64>) {
        self.state.thread.set(py, value);
    }

    /// Identifies the native loop of an isolated loop; None for a shared one.
    #[getter(_loop_handle)]
    fn loop_handle(&self) -> Option<u64> {
        (!matches!(self.kind, LoopKind::Shared)).then_some(self.id)
    }

    /// What the loop has done so far.
    fn _counters(&self, py: Python<'_>) -> PyResult<std::collections::BTreeMap<&'static str, u64>> {
        Ok(self.native(py)?.core.counters.snapshot().iter().collect())
    }

    /// The number of the native loop.
    #[getter(_number)]
    fn number(&self) -> u64 {
        self.id
    }

    /// The tasks that Erlang waits for, from any thread: see [`request_tasks::listed`].
    fn _request_tasks(&self, py: Python<'_>) -> Vec<(Py<PyAny>, Pid, u64, u64)> {
        self.served().map_or_else(Vec::new, |served| {
            let tasks = &served.request_tasks;
            tasks.with(py, |tasks| request_tasks::listed(py, tasks))
        })
    }

    // ---- garbage collection ----

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if !self.born {
            return Ok(());
        }
        self.ready
            .try_visit(|ready| ready.iter().try_for_each(|item| item.traverse(visit)))?;
        self.priorities.traverse(visit)?;
        self.timers.traverse(visit)?;
        self.files.traverse(visit)?;
        self.kind.traverse(visit)?;
        self.creation.traverse(visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.ready.replace(py, VecDeque::new()));
        self.priorities.clear(py);
        self.timers.clear(py);
        self.files.clear(py);
        if let Some(served) = self.served() {
            served.clear(py);
        }
        self.creation.clear(py);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // The program never closed it: release its resources in the VM.
        if let Some(native) = self.native.take_owned() {
            native.close(Sender::Thread);
        }
    }
}
