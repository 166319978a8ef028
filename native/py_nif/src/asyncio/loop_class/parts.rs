//! The parts of the loop object, each with the fields that are used together.

use std::sync::Arc;

use event_loop::TimerHeap;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use super::fd_table::FdTable;
use super::loop_arguments::TakeRequests;
use super::loop_clock::Clock;
use super::read_buffer::ReadBuffer;
use super::request_tasks::RequestTask;
use super::transports::Transports;
use crate::asyncio::handles::io_object::IoObject;
use crate::asyncio::handles::timer_handle::Scheduled;
use crate::asyncio::turn::priorities::Priorities;
use crate::asyncio::turn::wait_steps::WaitSteps;
use crate::beam::resource::Ref;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::interrupt::Interruptible;
use crate::loops::{LoopRef, Origin};

/// Who started the loop.
pub enum LoopKind {
    /// The program.
    Shared,
    /// The program, with a worker of its own, which holds the same resource.
    Isolated(#[allow(dead_code, reason = "kept alive")] Ref<LoopRef>),
    /// Erlang: its end is orderly, see `runners::served_loop`.
    Served(Box<ServedParts>),
}

impl LoopKind {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            LoopKind::Served(served) => served.traverse(visit),
            LoopKind::Shared | LoopKind::Isolated(_) => Ok(()),
        }
    }
}

/// Of a loop that Erlang started.
pub struct ServedParts {
    pub take_requests: TakeRequests,
    /// Its init code has ended: it takes requests.
    pub is_begun: GilSlot<bool>,
    /// The process that started it.
    pub origin: Arc<Origin>,
    /// The asyncio tasks that Erlang waits for, by the number of the request.
    pub request_tasks: GilCell<FxHashMap<u64, RequestTask>>,
    /// The context as the init code left it, which the tasks of callers start with. Empty: the
    /// init code runs.
    pub own_context: GilSlot<Option<Py<PyAny>>>,
}

impl ServedParts {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.own_context.visit(|context| visit.call(context))?;
        self.request_tasks
            .try_visit(|tasks| tasks.values().try_for_each(|task| task.traverse(visit)))
    }

    pub fn clear(&self, py: Python<'_>) {
        let tasks = self.request_tasks.replace(py, FxHashMap::default());
        drop((tasks, self.own_context.take(py)));
    }
}

#[derive(Default)]
pub struct LoopState {
    pub debug: GilSlot<bool>,
    pub stopping: GilSlot<bool>,
    pub closed: GilSlot<bool>,
    /// `threading.get_ident()` of the thread that runs the loop.
    pub thread: GilSlot<Option<u64>>,
}

#[derive(Default)]
pub struct Timers {
    pub heap: GilCell<TimerHeap<Scheduled>>,
    pub clock: GilSlot<Clock>,
}

impl Timers {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.heap
            .try_visit(|heap| heap.iter().try_for_each(|timer| timer.traverse(visit)))
    }

    pub fn clear(&self, py: Python<'_>) {
        drop(self.heap.replace(py, TimerHeap::new()));
    }
}

/// What belongs to fds.
#[derive(Default)]
pub struct Files {
    pub fds: GilCell<FdTable>,
    pub transports: GilCell<Transports>,
    /// Transports with data that is sent at the end of the callback.
    pub unflushed: GilCell<Vec<IoObject>>,
    pub read_buffer: GilCell<ReadBuffer>,
}

impl Files {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.unflushed
            .try_visit(|unflushed| unflushed.iter().try_for_each(|one| one.traverse(visit)))?;
        self.transports
            .try_visit(|transports| transports.traverse(visit))?;
        self.fds.try_visit(|fds| fds.traverse(visit))
    }

    pub fn clear(&self, py: Python<'_>) {
        drop(self.unflushed.replace(py, Vec::new()));
        drop(self.fds.replace(py, FdTable::default()));
        drop(self.transports.replace(py, Transports::default()));
    }
}

pub struct LoopWait {
    /// Absent while a thread waits.
    pub steps: GilCell<Option<Box<WaitSteps>>>,
    /// When the loop last began to wait.
    pub since: GilSlot<u64>,
    /// `_before_sleep()` is to be called.
    pub before_sleep: GilSlot<bool>,
}

/// Microtasks, and callbacks of other priorities.
#[derive(Default)]
pub struct Prioritized {
    /// Whether something waits.
    pub any: GilSlot<bool>,
    pub queues: GilCell<Priorities>,
}

impl Prioritized {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.queues.try_visit(|queues| queues.traverse(visit))
    }

    pub fn clear(&self, py: Python<'_>) {
        drop(self.queues.with(py, |queues| queues.take_all()));
    }
}

/// Running callbacks.
pub struct Callbacks {
    /// Of the callback that runs, so that a transport knows whether it wrote in this one before.
    pub number: GilSlot<u64>,
    /// As the watchdog interrupts them.
    pub interruptible: Arc<Interruptible>,
    /// Nanoseconds after which a handler is reported (`blocking`).
    pub threshold: GilSlot<Option<u64>>,
}

/// How tasks and futures are created: see `futures`.
#[derive(Default)]
pub struct Creation {
    pub task_factory: GilSlot<Option<Py<PyAny>>>,
    pub named_loop: GilSlot<Option<Py<PyDict>>>,
    pub named_task: GilSlot<Option<Py<PyDict>>>,
}

impl Creation {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.task_factory.visit(|factory| visit.call(factory))?;
        self.named_loop.visit(|named| visit.call(named))?;
        self.named_task.visit(|named| visit.call(named))
    }

    /// Breaks the cycle of the loop and its arguments.
    pub fn clear_arguments(&self, py: Python<'_>) {
        drop((self.named_loop.take(py), self.named_task.take(py)));
    }

    pub fn clear(&self, py: Python<'_>) {
        drop(self.task_factory.take(py));
        self.clear_arguments(py);
    }
}
