//! Requests from Erlang to a loop: how they arrive, and which callers still wait for a reply.
//!
//! Posted from any thread; taken by the loop's thread at the start of a turn
//! (`requests/on_loop.rs`). When the loop ends, for any reason and whatever its thread is doing,
//! all waiting callers get a reply at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use event_loop::inbox::Taken;
use event_loop::{Inbox, PushError, now_ns};
use pyo3::{Py, PyAny};
use rustc_hash::FxHashMap;
use rustler::Atom;

use super::NativeLoop;
use super::unmonitored::Unmonitored;
use crate::atoms;
use crate::beam::forked;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::requests::request::Request;
use crate::requests::task::Task;

pub enum Work {
    /// Call the function; on the loop, if it is a coroutine function.
    Run(Request),
    /// Await what a function on a call thread has returned.
    Await(Ref<Task>, Py<PyAny>),
    /// Cancel the task of this number.
    Cancel(u64),
    /// The stream of this number has waited, and now has demand.
    Demanded(u64),
}

/// Why a loop rejects a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is at its limit of requests.
    Overload,
    /// It is stopping or closed.
    Down,
    /// It waits for the caller.
    Deadlock,
}

impl Refused {
    pub fn atom(self) -> Atom {
        match self {
            Refused::Overload => atoms::overload(),
            Refused::Down => atoms::loop_down(),
            Refused::Deadlock => atoms::deadlock(),
        }
    }
}

/// How many requests a loop accepts.
#[derive(Clone, Copy, Default)]
pub struct RequestLimits {
    /// Requests in the inbox, which the loop has not taken yet.
    pub queue: usize,
    /// Requests without a reply, wherever they are.
    pub tasks: usize,
}

pub struct Requests {
    max_tasks: usize,
    inbox: Inbox<Work>,
    /// Changes that concern existing tasks: at most one demand and few cancellations for each,
    /// never rejected for lack of space.
    beside: Inbox<Work>,
    /// All tasks whose callers wait for a reply of this loop. `None` when it has ended.
    waiting: Mutex<Option<FxHashMap<u64, Ref<Task>>>>,
    unmonitored: Unmonitored,
    stop_asked: AtomicBool,
    stop_seen: AtomicBool,
}

impl Requests {
    pub fn new(limits: RequestLimits) -> Self {
        Requests {
            max_tasks: limits.tasks,
            inbox: Inbox::with_limit(limits.queue),
            beside: Inbox::new(),
            waiting: Mutex::new(Some(FxHashMap::default())),
            unmonitored: Unmonitored::default(),
            stop_asked: AtomicBool::new(false),
            stop_seen: AtomicBool::new(false),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<FxHashMap<u64, Ref<Task>>>> {
        // Single insertions and removals: consistent also after a panic.
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Posts work to the loop. Rejected work is returned.
    pub fn post(
        &self,
        native: &NativeLoop,
        task: &Ref<Task>,
        work: Work,
    ) -> Result<(), (Refused, Work)> {
        // Requests for information about the loop are always accepted.
        let counts = !matches!(&work, Work::Run(request) if request.inline);
        match &mut *self.waiting() {
            // An existing task returns from a call thread.
            Some(waiting)
                if counts && waiting.len() >= self.max_tasks && !waiting.contains_key(&task.id) =>
            {
                return Err((Refused::Overload, work));
            }
            Some(waiting) => waiting.insert(task.id, task.clone()),
            None => return Err((Refused::Down, work)),
        };
        match self.inbox.push(work) {
            Ok(was_empty) => {
                if was_empty {
                    native.core.wake();
                }
                Ok(())
            }
            Err(refused) => {
                self.forget(task.id);
                Err(match refused {
                    PushError::Full(work) => (Refused::Overload, work),
                    PushError::Closed(work) => (Refused::Down, work),
                })
            }
        }
    }

    /// The task waits, so the caller's death has to cancel it: it will be monitored if that takes a
    /// while. For the loop's thread, as are the next two.
    pub fn monitor_later(&self, task: u64) {
        self.unmonitored.add(task, now_ns);
    }

    /// For a loop that never sleeps.
    pub fn monitor_callers_if_due(&self, now: u64) {
        if self.unmonitored.is_due(now) {
            self.monitor_callers();
        }
    }

    /// Monitors the callers of tasks recorded for later that have no reply yet.
    pub fn monitor_callers(&self) {
        let unmonitored = self.unmonitored.take();
        if unmonitored.is_empty() {
            return;
        }
        let tasks: Vec<_> = match &*self.waiting() {
            Some(waiting) => (unmonitored.iter())
                .filter_map(|task| waiting.get(task).cloned())
                .collect(),
            None => return,
        };
        // A task whose caller has died is cancelled, which takes locks of its own.
        for task in tasks {
            task.watch(Sender::Thread);
        }
    }

    pub fn cancel(&self, native: &NativeLoop, id: u64) {
        self.post_beside(native, Work::Cancel(id));
    }

    pub fn demanded(&self, native: &NativeLoop, id: u64) {
        self.post_beside(native, Work::Demanded(id));
    }

    fn post_beside(&self, native: &NativeLoop, work: Work) {
        // A loop that has ended rejects it, but then its tasks have ended, too.
        if let Ok(true) = self.beside.push(work) {
            native.core.wake();
        }
    }

    /// The loop's cheap check: whether there is work, or a reason to stop that it has not seen yet.
    pub fn any(&self, native: &NativeLoop) -> bool {
        !self.inbox.is_empty()
            || !self.beside.is_empty()
            || (self.is_stop_wanted(native) && !self.stop_seen.load(Ordering::Relaxed))
    }

    fn is_stop_wanted(&self, native: &NativeLoop) -> bool {
        self.stop_asked.load(Ordering::Acquire) || native.is_orphaned()
    }

    /// Requests come first: a cancellation may concern one of them.
    pub fn take(&self) -> std::iter::Chain<Taken<Work>, Taken<Work>> {
        let beside = self.beside.take();
        self.inbox.take().chain(beside)
    }

    /// The task has its reply.
    pub fn forget(&self, id: u64) {
        let forgotten = self
            .waiting()
            .as_mut()
            .and_then(|waiting| waiting.remove(&id));
        drop(forgotten);
    }

    pub fn is_open(&self) -> bool {
        !self.inbox.is_closed()
    }

    pub fn waiting_len(&self) -> usize {
        self.waiting().as_ref().map_or(0, FxHashMap::len)
    }

    pub fn queued_len(&self) -> usize {
        self.inbox.len()
    }

    /// Accepts no more work and makes the loop's thread end the loop.
    pub fn stop(&self, native: &NativeLoop) {
        self.inbox.close();
        // Release: a thread that sees it also finds the inbox closed.
        self.stop_asked.store(true, Ordering::Release);
        native.core.wake();
    }

    /// Whether Erlang wants the loop to end, or its worker died. True once: the thread that sees it
    /// ends the loop.
    pub fn must_stop(&self, native: &NativeLoop) -> bool {
        self.is_stop_wanted(native) && !self.stop_seen.swap(true, Ordering::Relaxed)
    }

    /// Whether the thread has seen that it must end the loop.
    pub fn is_ending(&self) -> bool {
        self.stop_seen.load(Ordering::Relaxed)
    }

    /// The loop has ended: waiting callers get a reply at once.
    pub fn end(&self, sender: Sender<'_>) {
        if forked::is_copy() {
            // They wait for the reply of the node that was copied.
            return;
        }
        self.inbox.close();
        let waiting = self.waiting().take();
        for task in waiting.into_iter().flat_map(FxHashMap::into_values) {
            task.fail(sender, atoms::loop_down());
        }
    }
}

impl NativeLoop {
    /// As [`Requests::post`]; first assigns the loop to a thread if it has none.
    pub fn post(self: &Arc<Self>, task: &Ref<Task>, work: Work) -> Result<(), (Refused, Work)> {
        if self
            .assignment
            .as_ref()
            .is_some_and(|assignment| !assignment.ensure_runner())
        {
            return Err((Refused::Overload, work));
        }
        self.requests.post(self, task, work)
    }
}
