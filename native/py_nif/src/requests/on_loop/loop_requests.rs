//! Requests from Erlang to a loop: how they arrive, and which callers still wait for a reply.
//!
//! Posted from any thread; taken by the loop's thread at the start of a turn (`on_loop`). When the loop ends, for any reason and whatever its thread is doing,
//! all waiting callers get a reply at once.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use event_loop::inbox::Taken;
use event_loop::{Inbox, PushError, now_ns};
use pyo3::{Py, PyAny};
use rustc_hash::FxHashMap;
use rustler::Atom;

use super::unmonitored::Unmonitored;
use crate::atoms;
use crate::beam::forked;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::loops::{NativeLoop, Requests, registry};
use crate::requests::call::Call;
use crate::requests::request::Request;

pub enum LoopMessage {
    /// Call the function; on the loop, if it is a coroutine function.
    Run(Call),
    /// Await what a function on a call thread has returned.
    Await(Ref<Request>, Py<PyAny>),
    /// Cancel the request of this number.
    Cancel(u64),
    /// The stream of this number has waited, and now has demand.
    Demand(u64),
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
    pub unanswered: usize,
}

pub struct LoopRequests {
    pub limits: RequestLimits,
    inbox: Inbox<LoopMessage>,
    /// Changes that concern existing requests: at most one demand and few cancellations for each,
    /// never rejected for lack of space.
    beside: Inbox<LoopMessage>,
    /// All requests whose callers wait for a reply of this loop. `None` when it has ended.
    waiting: Mutex<Option<FxHashMap<u64, Ref<Request>>>>,
    /// How many these are, for pools, which read it before each request. Relaxed: written under the
    /// lock, and outdated when it is read.
    unanswered: AtomicUsize,
    unmonitored: Unmonitored,
    stop_asked: AtomicBool,
    stop_seen: AtomicBool,
}

impl LoopRequests {
    pub fn new(limits: RequestLimits) -> Self {
        LoopRequests {
            limits,
            inbox: Inbox::with_limit(limits.queue),
            beside: Inbox::new(),
            waiting: Mutex::new(Some(FxHashMap::default())),
            unanswered: AtomicUsize::new(0),
            unmonitored: Unmonitored::default(),
            stop_asked: AtomicBool::new(false),
            stop_seen: AtomicBool::new(false),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<FxHashMap<u64, Ref<Request>>>> {
        // Single insertions and removals: consistent also after a panic.
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Those of a loop; `None` if it takes none.
    pub fn of(native: &NativeLoop) -> Option<&Self> {
        let requests: &dyn Any = native.requests.as_deref()?;
        requests.downcast_ref()
    }

    /// Posts a message to the loop. A rejected one is returned.
    fn post(
        &self,
        native: &NativeLoop,
        request: &Ref<Request>,
        message: LoopMessage,
    ) -> Result<(), (Refused, LoopMessage)> {
        // Requests for information about the loop are always accepted.
        let counts = !matches!(&message, LoopMessage::Run(call) if call.inline);
        match &mut *self.waiting() {
            // An existing request returns from a call thread.
            Some(waiting)
                if counts
                    && waiting.len() >= self.limits.unanswered
                    && !waiting.contains_key(&request.id) =>
            {
                return Err((Refused::Overload, message));
            }
            Some(waiting) => {
                waiting.insert(request.id, request.clone());
                self.unanswered.store(waiting.len(), Ordering::Relaxed);
            }
            None => return Err((Refused::Down, message)),
        };
        match self.inbox.push(message) {
            Ok(was_empty) => {
                if was_empty {
                    native.core.wake();
                }
                Ok(())
            }
            Err(refused) => {
                self.forget(request.id);
                Err(match refused {
                    PushError::Full(message) => (Refused::Overload, message),
                    PushError::Closed(message) => (Refused::Down, message),
                })
            }
        }
    }

    /// The request waits, so the caller's death has to cancel it: it will be monitored if that takes a
    /// while. For the loop's thread.
    pub fn monitor_later(&self, request: u64) {
        self.unmonitored.add(request, now_ns);
    }

    fn is_stop_wanted(&self, native: &NativeLoop) -> bool {
        self.stop_asked.load(Ordering::Acquire) || native.is_orphaned()
    }

    /// Requests come first: a cancellation may concern one of them.
    pub fn take(&self) -> std::iter::Chain<Taken<LoopMessage>, Taken<LoopMessage>> {
        let beside = self.beside.take();
        self.inbox.take().chain(beside)
    }

    fn forget(&self, id: u64) {
        let forgotten = self.waiting().as_mut().and_then(|waiting| {
            let forgotten = waiting.remove(&id);
            self.unanswered.store(waiting.len(), Ordering::Relaxed);
            forgotten
        });
        drop(forgotten);
    }

    /// The open streams among its requests.
    pub fn streams(&self) -> Vec<Ref<Request>> {
        let waiting = self.waiting();
        (waiting.iter().flat_map(FxHashMap::values))
            .filter(|request| request.is_stream)
            .cloned()
            .collect()
    }

    pub fn unanswered_len(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    pub fn queued_len(&self) -> usize {
        self.inbox.len()
    }

    /// Accepts no more requests and makes the loop's thread end the loop.
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

    fn is_ending(&self) -> bool {
        self.stop_seen.load(Ordering::Relaxed)
    }
}

impl Requests for LoopRequests {
    fn any(&self, native: &NativeLoop) -> bool {
        !self.inbox.is_empty()
            || !self.beside.is_empty()
            || (self.is_stop_wanted(native) && !self.stop_seen.load(Ordering::Relaxed))
    }

    fn is_open(&self) -> bool {
        !self.inbox.is_closed()
    }

    fn monitor_callers(&self) {
        let unmonitored = self.unmonitored.take();
        if unmonitored.is_empty() {
            return;
        }
        let requests: Vec<_> = match &*self.waiting() {
            Some(waiting) => (unmonitored.iter())
                .filter_map(|request| waiting.get(request).cloned())
                .collect(),
            None => return,
        };
        // A request whose caller has died is cancelled, which takes locks of its own.
        for request in requests {
            request.monitor_caller(Sender::Thread);
        }
    }

    fn monitor_callers_if_due(&self, now: u64) {
        if self.unmonitored.is_due(now) {
            self.monitor_callers();
        }
    }

    fn end(&self, sender: Sender<'_>) {
        if forked::is_copy() {
            // They wait for the reply of the node that was copied.
            return;
        }
        self.inbox.close();
        let waiting = {
            let mut waiting = self.waiting();
            self.unanswered.store(0, Ordering::Relaxed);
            waiting.take()
        };
        for request in waiting.into_iter().flat_map(FxHashMap::into_values) {
            request.fail(sender, atoms::loop_down());
        }
    }
}

/// Posts a message to the loop; first assigns the loop to a thread if it has none. A rejected
/// message is returned.
pub fn post(
    native: &Arc<NativeLoop>,
    request: &Ref<Request>,
    message: LoopMessage,
) -> Result<(), (Refused, LoopMessage)> {
    let Some(requests) = LoopRequests::of(native) else {
        return Err((Refused::Down, message));
    };
    if native
        .assignment
        .as_ref()
        .is_some_and(|assignment| !assignment.ensure_runner())
    {
        return Err((Refused::Overload, message));
    }
    requests.post(native, request, message)
}

/// Cancels a request on the loop of this number. Returns `false` if that has ended.
pub fn cancel(loop_id: u64, request: u64) -> bool {
    post_beside(loop_id, LoopMessage::Cancel(request))
}

/// The stream has waited, and now has demand.
pub fn demand(loop_id: u64, stream: u64) {
    post_beside(loop_id, LoopMessage::Demand(stream));
}

/// The request has its reply.
pub fn forget(native: &NativeLoop, request: u64) {
    if let Some(requests) = LoopRequests::of(native) {
        requests.forget(request);
    }
}

/// Whether the thread of the loop has seen that it must end it.
pub fn is_ending(native: &NativeLoop) -> bool {
    LoopRequests::of(native).is_some_and(LoopRequests::is_ending)
}

fn post_beside(loop_id: u64, message: LoopMessage) -> bool {
    let Some(native) = registry::get(loop_id) else {
        return false;
    };
    // A loop that has ended rejects it, but then its requests have ended, too.
    if let Some(requests) = LoopRequests::of(&native)
        && let Ok(true) = requests.beside.push(message)
    {
        native.core.wake();
    }
    true
}
