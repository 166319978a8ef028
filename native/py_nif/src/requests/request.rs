//! The life of a request, as the resource that Erlang holds of it.
//!
//! ```text
//! Queued <─> Running ──> Done       the reply was sent
//!    └──────────┴──────> Abandoned    no caller waits: it timed out, cancelled or died
//! ```
//!
//! (A request returns to Queued if a plain function returned an awaitable, which a loop has to run.)
//!
//! There is at most one reply, `{py_reply, Token, Result}`, and it is sent under the request's lock.
//! Abandoning it takes the same lock: either the reply is in the mailbox by then, or it will never be
//! sent. So a timeout leaves no stray message behind, although `enif_send` does not support process
//! aliases.
//!
//! A stream is a request with items before its reply: `request/flow.rs`. It is its own token, and its
//! reply is `{py_stream, Stream, done | {error, Reason}}`.

mod flow;

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use event_loop::now_ns;
use rustler::{Atom, Encoder, Env, LocalPid, Term};

use flow::Flow;
pub use flow::{Next, StreamReading};

use super::call::Name;
use super::call_threads::interrupts;
use super::ledger::Entry;
use super::on_loop::loop_requests;
use super::plain_streams;
use super::reports;
use crate::atoms;
use crate::beam::forked;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::own_env::{EnvTerm, OwnEnv};
use crate::beam::resource::{Monitor, Ref, Resource, TypeCell};
use crate::convert::ResultOptions;
use crate::loops::Origin;

/// Where a request runs, which determines how it can be stopped.
#[derive(Clone)]
pub enum RunsOn {
    /// A plain function on a call thread. It is interrupted, and reported if it does not end.
    CallThread,
    /// On a thread beside the loops, too: its function is being found, its module perhaps imported.
    LookupThread,
    /// A coroutine on the loop of this number, which cancels it at its `await`.
    Loop(u64),
    /// A plain generator between two items, without a thread: it waits for its turn.
    NoThread,
}

enum Phase {
    Queued,
    Running(RunsOn),
    Done,
    Abandoned {
        /// What runs without a caller, outside the loops.
        left: Option<Left>,
    },
}

/// Code that runs although its caller has gone: until it is interrupted, and then its finally-blocks.
struct Left {
    since: Instant,
}

impl Left {
    /// For a request that is abandoned while it runs there. `None`: its loop cancels it.
    fn at(runs_on: &RunsOn) -> Option<Self> {
        match runs_on {
            RunsOn::CallThread | RunsOn::LookupThread => Some(Left {
                since: Instant::now(),
            }),
            RunsOn::Loop(_) | RunsOn::NoThread => None,
        }
    }
}

/// What a reply needs. Taken by the code that replies.
struct PendingReply {
    to: LocalPid,
    env: OwnEnv,
    /// `None` for a stream, which is its own token.
    token: Option<EnvTerm>,
}

/// The process that gets the reply.
pub enum ReplyTo<'a> {
    /// The calling process, with this token.
    Caller(Term<'a>),
    /// As `Caller`, for a process that only waits: it is monitored if the reply takes a while
    /// (`monitor_caller`).
    WaitingCaller(Term<'a>),
    /// A stream: this process gets its items, and wants this many of them.
    Consumer(LocalPid, u64),
    /// A cast.
    NoProcess,
}

/// Guarded together: code that changes the phase to `Done` sends the reply before it unlocks.
struct RequestState {
    phase: Phase,
    reply: Option<PendingReply>,
    monitor: Option<Monitor>,
    /// When it began to run outside the loops, in nanoseconds.
    began: u64,
    /// Only for a stream.
    flow: Option<Flow>,
}

pub struct Request {
    pub id: u64,
    /// For reports and for the name of the asyncio task.
    pub name: Name,
    /// No process waits for it, and its caller's death does not stop it.
    pub is_cast: bool,
    pub is_stream: bool,
    /// How its result or its items are converted.
    pub result: ResultOptions,
    /// The process that made the request: output goes to that process's group leader.
    pub origin: Arc<Origin>,
    /// Set if it is from the origin of this peer.
    entry: OnceLock<Entry>,
    state: Mutex<RequestState>,
}

impl Request {
    /// The death of the process that gets the reply abandons the request. `None`: it is dead already.
    pub fn new(
        env: Env<'_>,
        name: Name,
        reply_to: ReplyTo<'_>,
        result: ResultOptions,
        leader: Term<'_>,
    ) -> Option<Ref<Request>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let own = OwnEnv::new();
        let waits = matches!(reply_to, ReplyTo::WaitingCaller(_));
        let (to, token, flow) = match reply_to {
            ReplyTo::Caller(token) | ReplyTo::WaitingCaller(token) => {
                (Some(env.pid()), Some(own.keep_copy(token)), None)
            }
            ReplyTo::Consumer(pid, credit) => (Some(pid), None, Some(Flow::new(pid, credit))),
            ReplyTo::NoProcess => (None, None, None),
        };
        let request = Ref::new(Request {
            // Relaxed: only uniqueness matters.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            is_cast: to.is_none(),
            is_stream: flow.is_some(),
            result,
            origin: Origin::new(env, leader),
            entry: OnceLock::new(),
            state: Mutex::new(RequestState {
                phase: Phase::Queued,
                reply: to.map(|to| PendingReply {
                    to,
                    env: own,
                    token,
                }),
                monitor: None,
                began: 0,
                flow,
            }),
        });
        if let (Some(to), false) = (to, waits) {
            let monitor = request.monitor(Sender::Scheduler(env), &to)?;
            request.lock().monitor = Some(monitor);
        }
        Some(request)
    }

    fn lock(&self) -> MutexGuard<'_, RequestState> {
        // Every change below is a single assignment.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Before it is queued.
    pub fn record_in(&self, entry: Entry) {
        // It has one entry.
        let _ = self.entry.set(entry);
    }

    /// Records that code of the request may run from now on.
    pub fn record_begin(&self) {
        if let Some(entry) = self.entry.get() {
            entry.begin();
        }
    }

    /// It runs there from now on. Returns `false` if it was abandoned. For our own threads.
    pub fn begin(&self, runs_on: RunsOn) -> bool {
        let mut state = self.lock();
        if let (Some(reply), None) = (&state.reply, &state.monitor)
            && !message::is_alive(&reply.to)
        {
            state.phase = Phase::Abandoned { left: None };
        }
        match state.phase {
            Phase::Queued | Phase::Running(_) => {
                if let RunsOn::CallThread | RunsOn::LookupThread = runs_on {
                    state.began = now_ns();
                }
                state.phase = Phase::Running(runs_on);
                self.record_begin();
                true
            }
            Phase::Done | Phase::Abandoned { .. } => false,
        }
    }

    /// The code has returned an awaitable: the request waits for its loop. Returns `false` if it was
    /// abandoned.
    pub fn requeue(&self) -> bool {
        let mut state = self.lock();
        match state.phase {
            Phase::Queued | Phase::Running(_) => {
                state.phase = Phase::Queued;
                true
            }
            Phase::Done | Phase::Abandoned { .. } => false,
        }
    }

    pub fn is_wanted(&self) -> bool {
        matches!(self.lock().phase, Phase::Queued | Phase::Running(_))
    }

    /// No caller waits any more: no reply will be sent. Returns `false` if it was sent already.
    pub fn abandon(&self, sender: Sender<'_>) -> bool {
        let place = {
            let mut state = self.lock();
            let place = match &state.phase {
                Phase::Done => return false,
                Phase::Abandoned { .. } => return true,
                Phase::Queued => None,
                Phase::Running(place) => Some(place.clone()),
            };
            state.monitor = None;
            let left = place.as_ref().and_then(Left::at);
            if left.is_some() {
                self.report_running(sender);
            }
            state.phase = Phase::Abandoned { left };
            place
        };
        match place {
            Some(RunsOn::Loop(id)) => {
                loop_requests::cancel(id, self.id);
            }
            // To be closed.
            Some(RunsOn::NoThread) => plain_streams::resume(self.id),
            Some(RunsOn::CallThread) => interrupts::send(self.id),
            // An import continues: other code may wait for it.
            Some(RunsOn::LookupThread) | None => {}
        }
        true
    }

    /// Reports that it runs without a caller from now on.
    fn report_running(&self, sender: Sender<'_>) {
        reports::send(sender, (atoms::call_abandoned(), self.id, &*self.name));
    }

    /// Code that ran without a caller has ended.
    pub fn ended(&self) {
        let left = match &mut self.lock().phase {
            Phase::Abandoned { left } => left.take(),
            _ => None,
        };
        if let Some(left) = left {
            let late = left.since.elapsed().as_millis() as u64;
            let report = (atoms::call_ended(), self.id, &*self.name, late);
            reports::send(Sender::Thread, report);
        }
    }

    /// The process that waits for it, if any, and since when it runs: in nanoseconds, as
    /// [`now_ns`].
    pub fn runs_for(&self) -> (Option<LocalPid>, u64) {
        let state = self.lock();
        (state.reply.as_ref().map(|reply| reply.to), state.began)
    }

    /// Whether it runs although its caller has gone.
    pub fn is_left(&self) -> bool {
        matches!(self.lock().phase, Phase::Abandoned { left: Some(_) })
    }

    /// The stream has no consumer, and its finalizers run without one until it has
    /// [`ended`](Self::ended).
    pub fn closing(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Abandoned { left: Some(_) }) {
            return;
        }
        state.phase = Phase::Abandoned {
            left: Left::at(&RunsOn::CallThread),
        };
        self.report_running(Sender::Thread);
    }
}

/// Functions that need the resource itself, to begin or end its monitor.
impl Ref<Request> {
    /// The process that gets the reply has waited for a while, or will: from now on its death abandons
    /// the request.
    pub fn monitor_caller(&self, sender: Sender<'_>) {
        let died = {
            let mut state = self.lock();
            let open = matches!(state.phase, Phase::Queued | Phase::Running(_));
            match &state.reply {
                Some(reply) if open && state.monitor.is_none() => {
                    state.monitor = self.monitor(sender, &reply.to);
                    state.monitor.is_none()
                }
                _ => false,
            }
        };
        if died && !forked::is_copy() {
            self.abandon(sender);
        }
    }

    /// Replies from one of our threads. `build` runs without the lock: it converts a value, which
    /// takes time, and a scheduler thread may want the lock meanwhile.
    pub fn reply(&self, build: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        if forked::is_copy() {
            // The function forked: the node that was copied replies.
            return;
        }
        let Some(reply) = self.lock().reply.take() else {
            return self.ended();
        };
        let message = reply.env.with(|env| {
            // A panic in it must not leave the caller without a reply.
            let result = catch_unwind(AssertUnwindSafe(|| build(env)))
                .unwrap_or_else(|_| (atoms::error(), atoms::panicked()).encode(env));
            reply.env.keep(self.message(env, &reply, result))
        });
        let monitor = {
            let mut state = self.lock();
            if !matches!(state.phase, Phase::Queued | Phase::Running(_)) {
                drop(state);
                return self.ended();
            }
            state.phase = Phase::Done;
            // A caller that has died needs no reply.
            let _ = reply.env.send(&reply.to, message);
            state.monitor.take()
        };
        if let Some(monitor) = monitor {
            self.demonitor(Sender::Thread, &monitor);
        }
    }

    /// Replies `{error, Reason}` without having run, or without waiting for the running code.
    pub fn fail(&self, sender: Sender<'_>, reason: impl Encoder) {
        self.fail_unless(sender, reason, |_| None::<()>);
    }

    /// As [`fail`](Self::fail), unless it runs where `spared` says: then the result of `spared` is
    /// returned, and the request continues.
    fn fail_unless<R>(
        &self,
        sender: Sender<'_>,
        reason: impl Encoder,
        spared: impl FnOnce(&RunsOn) -> Option<R>,
    ) -> Option<R> {
        let (monitor, place) = {
            let mut state = self.lock();
            let place = match &state.phase {
                Phase::Done | Phase::Abandoned { .. } => return None,
                Phase::Queued => None,
                Phase::Running(place) => match spared(place) {
                    Some(reply) => return Some(reply),
                    None => Some(place.clone()),
                },
            };
            let left = place.as_ref().and_then(Left::at);
            match state.reply.take() {
                Some(reply) => self.send_error(reply, sender, reason),
                None if self.is_cast => {
                    let report = (atoms::cast_failed(), &*self.name, reason);
                    reports::send(sender, report);
                }
                // It is being replied to at this moment.
                None => return None,
            }
            if left.is_some() {
                self.report_running(sender);
            }
            state.phase = match left {
                Some(_) => Phase::Abandoned { left },
                None => Phase::Done,
            };
            (state.monitor.take(), place)
        };
        if let Some(monitor) = monitor {
            self.demonitor(sender, &monitor);
        }
        match place {
            // To be closed.
            Some(RunsOn::NoThread) => plain_streams::resume(self.id),
            Some(RunsOn::CallThread) => interrupts::send(self.id),
            Some(RunsOn::LookupThread | RunsOn::Loop(_)) | None => {}
        }
        None
    }

    /// `py:cancel/1`. A waiting request gets its reply at once, a coroutine when it has ended: whether
    /// it runs is checked under the lock that the reply needs, because its loop may begin it at
    /// this moment.
    pub fn cancel(&self, sender: Sender<'_>) {
        let on_loop = self.fail_unless(sender, atoms::cancelled(), |place| match place {
            RunsOn::Loop(id) => Some(*id),
            RunsOn::CallThread | RunsOn::LookupThread | RunsOn::NoThread => None,
        });
        let Some(id) = on_loop else { return };
        if !loop_requests::cancel(id, self.id) {
            // The loop has ended, and notifies this request, too.
            self.fail(sender, atoms::cancelled());
        }
    }

    /// `result` is `{ok, Value}` or `{error, Reason}`.
    fn message<'a>(
        &self,
        env: Env<'a>,
        reply: &PendingReply,
        result: Term<'a>,
    ) -> (Atom, Term<'a>, Term<'a>) {
        match reply.token {
            Some(token) => (atoms::py_reply(), reply.env.load(token).in_env(env), result),
            None => {
                let failed = matches!(result.decode::<(Atom, Term<'_>)>(), Ok((tag, _)) if tag == atoms::error());
                let event = if failed {
                    result
                } else {
                    atoms::done().encode(env)
                };
                (atoms::py_stream(), self.encode(env), event)
            }
        }
    }

    fn send_error(&self, reply: PendingReply, sender: Sender<'_>, reason: impl Encoder) {
        let error = (atoms::error(), reason);
        // A caller that has died needs no reply.
        match sender {
            Sender::Scheduler(env) => {
                let _ = env.send(&reply.to, self.message(env, &reply, error.encode(env)));
            }
            Sender::Thread => {
                let message = reply
                    .env
                    .with(|env| reply.env.keep(self.message(env, &reply, error.encode(env))));
                let _ = reply.env.send(&reply.to, message);
            }
        }
    }
}

impl Resource for Request {
    const NAME: &'static CStr = c"erlang_loop.request";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, env: Env<'_>, _pid: LocalPid) {
        self.abandon(Sender::Scheduler(env));
    }
}
