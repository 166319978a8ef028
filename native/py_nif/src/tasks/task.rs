//! A request's life, as the resource that Erlang holds of it.
//!
//! ```text
//! Queued <─> Running ──> Done       the answer was sent
//!    └──────────┴──────> GivenUp    nobody waits: a time-out, or the caller died
//! ```
//!
//! (Back to Queued goes what a plain function answered and a loop has to await.)
//!
//! There is one answer at most, `{py_reply, Token, Result}`, and it is sent under the task's
//! lock. Giving up takes the same lock: either the answer is in the mailbox by then, or none
//! will ever come. That is how a time-out leaves no stray message behind, though `enif_send`
//! knows no process aliases.
//!
//! A stream is a task with items before its answer: `task/flow.rs`. It is its own token, and its
//! answer is `{py_stream, Stream, done | {error, Reason}}`.

mod flow;

use std::ffi::CStr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use event_loop::now_ns;
use rustler::{Atom, Encoder, Env, LocalPid, Term};

use flow::Flow;
pub use flow::Next;

use super::{reports, Name};
use crate::atoms;
use crate::beam::forked;
use crate::beam::message::{self, Sender};
use crate::beam::own_env::{Kept, OwnEnv};
use crate::beam::resource::{Monitor, Ref, Resource, TypeCell};
use crate::loops::registry;
use crate::output::Origin;
use crate::python::plain_streams;

/// Where a task runs, and so how it can be stopped.
#[derive(Clone)]
pub enum Place {
    /// A plain function on a call thread. Python cannot be interrupted there: it is reported.
    CallThread,
    /// A coroutine on the loop of this number, which cancels it at its `await`.
    Loop(u64),
    /// A plain generator between two items, on no thread: its turn will come.
    SetAside,
}

enum Phase {
    Queued,
    Running(Place),
    Done,
    GivenUp {
        /// Since when a plain function runs for nobody.
        since: Option<Instant>,
    },
}

/// What an answer needs. Taken by the one who answers.
struct Reply {
    to: LocalPid,
    env: OwnEnv,
    /// `None` for a stream, which is its own.
    token: Option<Kept>,
}

/// Who is answered.
pub enum Asker<'a> {
    /// The calling process, with this token.
    Caller(Term<'a>),
    /// As `Caller`, which does nothing but wait: its death is listened for when that takes a
    /// while (`watch`).
    Waiting(Term<'a>),
    /// A stream: this process gets its items, of which so many are wanted.
    Consumer(LocalPid, u64),
    /// Nobody: a cast.
    Nobody,
}

/// Guarded together: whoever changes the phase to `Done` sends the answer before it lets go.
struct Life {
    phase: Phase,
    reply: Option<Reply>,
    monitor: Option<Monitor>,
    /// When it began to run on a call thread, in nanoseconds.
    began: u64,
    /// Of a stream.
    flow: Option<Flow>,
}

pub struct Task {
    pub id: u64,
    /// For reports and for the name of the asyncio task.
    pub name: Name,
    /// Nobody waits for it, and its caller's death is no reason to stop.
    pub is_cast: bool,
    pub is_stream: bool,
    /// Who asked for it: what it prints goes to that process's group leader.
    pub origin: Arc<Origin>,
    life: Mutex<Life>,
}

impl Task {
    /// The death of the one who is to be answered gives it up. `None`: that one is dead already.
    pub fn new(env: Env<'_>, name: Name, asker: Asker<'_>, leader: Term<'_>) -> Option<Ref<Task>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let own = OwnEnv::new();
        let waits = matches!(asker, Asker::Waiting(_));
        let (to, token, flow) = match asker {
            Asker::Caller(token) | Asker::Waiting(token) => {
                (Some(env.pid()), Some(own.keep_copy(token)), None)
            }
            Asker::Consumer(pid, credit) => (Some(pid), None, Some(Flow::new(pid, credit))),
            Asker::Nobody => (None, None, None),
        };
        let task = Ref::new(Task {
            // Relaxed: only uniqueness matters.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            is_cast: to.is_none(),
            is_stream: flow.is_some(),
            origin: Origin::new(env, leader),
            life: Mutex::new(Life {
                phase: Phase::Queued,
                reply: to.map(|to| Reply {
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
            let monitor = task.monitor(Sender::Scheduler(env), &to)?;
            task.lock().monitor = Some(monitor);
        }
        Some(task)
    }

    fn lock(&self) -> MutexGuard<'_, Life> {
        // Every change below is a single assignment.
        self.life
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// It runs from now on, there. `false`: nobody wants it any more. For threads of ours.
    pub fn begin(&self, place: Place) -> bool {
        let mut life = self.lock();
        if let (Some(reply), None) = (&life.reply, &life.monitor) {
            if !message::is_alive(&reply.to) {
                life.phase = Phase::GivenUp { since: None };
            }
        }
        match life.phase {
            Phase::Queued | Phase::Running(_) => {
                if let (Place::CallThread, None) = (&place, &life.monitor) {
                    life.began = now_ns();
                }
                life.phase = Phase::Running(place);
                true
            }
            Phase::Done | Phase::GivenUp { .. } => false,
        }
    }

    /// What ran has answered something that must be awaited: it waits for its loop. `false`:
    /// nobody wants it any more.
    pub fn requeue(&self) -> bool {
        let mut life = self.lock();
        match life.phase {
            Phase::Queued | Phase::Running(_) => {
                life.phase = Phase::Queued;
                true
            }
            Phase::Done | Phase::GivenUp { .. } => false,
        }
    }

    pub fn is_wanted(&self) -> bool {
        matches!(self.lock().phase, Phase::Queued | Phase::Running(_))
    }

    /// Nobody waits any longer: no answer will be sent. `false`: it was sent already.
    pub fn give_up(&self, sender: Sender<'_>) -> bool {
        let place = {
            let mut life = self.lock();
            let place = match &life.phase {
                Phase::Done => return false,
                Phase::GivenUp { .. } => return true,
                Phase::Queued => None,
                Phase::Running(place) => Some(place.clone()),
            };
            life.monitor = None;
            let runs = matches!(place, Some(Place::CallThread));
            life.phase = Phase::GivenUp {
                since: runs.then(Instant::now),
            };
            if runs {
                self.report_running(sender);
            }
            place
        };
        match place {
            Some(Place::Loop(id)) => {
                if let Some(native) = registry::get(id) {
                    native.requests.cancel(&native, self.id);
                }
            }
            // To be closed.
            Some(Place::SetAside) => plain_streams::resume(self.id),
            Some(Place::CallThread) | None => {}
        }
        true
    }

    /// It runs for nobody from now on.
    fn report_running(&self, sender: Sender<'_>) {
        reports::send(sender, (atoms::call_given_up(), self.id, &*self.name));
    }

    /// A function that ran for nobody has ended.
    pub fn ended(&self) {
        let since = match &mut self.lock().phase {
            Phase::GivenUp { since } => since.take(),
            _ => None,
        };
        if let Some(since) = since {
            let late = since.elapsed().as_millis() as u64;
            let tag = match self.is_stream {
                true => atoms::stream_ended(),
                false => atoms::call_ended(),
            };
            let report = (tag, self.id, &*self.name, late);
            reports::send(Sender::Thread, report);
        }
    }

    /// A function has ended whose caller died before anybody listened for that. What took no
    /// longer than callers wait for before they have that listened for is nothing to report.
    fn ended_unheard(&self, began: u64) {
        let took = now_ns().saturating_sub(began) / 1_000_000;
        if took > 2 {
            let report = (atoms::call_ended(), self.id, &*self.name, took);
            reports::send(Sender::Thread, report);
        }
    }

    /// Nobody wants the stream, and its finalizers run for nobody until it has [`ended`](Self::ended).
    pub fn closing(&self) {
        let mut life = self.lock();
        if matches!(life.phase, Phase::GivenUp { since: Some(_) }) {
            return;
        }
        life.phase = Phase::GivenUp {
            since: Some(Instant::now()),
        };
        self.report_running(Sender::Thread);
    }
}

/// What needs the resource itself, to begin or end its monitor.
impl Ref<Task> {
    /// Whoever waits for the answer has waited for a while, or will: its death gives the task
    /// up from now on, or at once.
    pub fn watch(&self, sender: Sender<'_>) {
        let died = {
            let mut life = self.lock();
            let open = matches!(life.phase, Phase::Queued | Phase::Running(_));
            match &life.reply {
                Some(reply) if open && life.monitor.is_none() => {
                    life.monitor = self.monitor(sender, &reply.to);
                    life.monitor.is_none()
                }
                _ => false,
            }
        };
        if died && !forked::is_copy() {
            self.give_up(sender);
        }
    }

    /// Answers from a thread of ours. `build` runs without the lock: it converts a value, which
    /// takes time, and a scheduler thread may want the lock meanwhile.
    pub fn answer(&self, build: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        if forked::is_copy() {
            // The function forked: the node that was copied answers.
            return;
        }
        let Some(reply) = self.lock().reply.take() else {
            return self.ended();
        };
        let message = reply.env.with(|env| {
            // A panic in it must not leave the caller without an answer.
            let result = catch_unwind(AssertUnwindSafe(|| build(env)))
                .unwrap_or_else(|_| (atoms::error(), atoms::panicked()).encode(env));
            reply.env.keep(self.message(env, &reply, result))
        });
        let monitor = {
            let mut life = self.lock();
            if !matches!(life.phase, Phase::Queued | Phase::Running(_)) {
                drop(life);
                return self.ended();
            }
            let was = std::mem::replace(&mut life.phase, Phase::Done);
            let sent = reply.env.send(&reply.to, message);
            let ran = matches!(was, Phase::Running(Place::CallThread));
            if !sent && ran && life.monitor.is_none() {
                self.ended_unheard(life.began);
            }
            life.monitor.take()
        };
        if let Some(monitor) = monitor {
            self.demonitor(Sender::Thread, &monitor);
        }
    }

    /// Answers `{error, Reason}` without having run, or without waiting for what runs.
    pub fn fail(&self, sender: Sender<'_>, reason: impl Encoder) {
        self.fail_unless(sender, reason, |_| None::<()>);
    }

    /// As [`fail`](Self::fail), unless it runs where `spared` says: what that answers comes back,
    /// and the task goes on.
    fn fail_unless<R>(
        &self,
        sender: Sender<'_>,
        reason: impl Encoder,
        spared: impl FnOnce(&Place) -> Option<R>,
    ) -> Option<R> {
        let (monitor, aside) = {
            let mut life = self.lock();
            let (runs, aside) = match &life.phase {
                Phase::Done | Phase::GivenUp { .. } => return None,
                Phase::Queued => (false, false),
                Phase::Running(place) => match spared(place) {
                    Some(answer) => return Some(answer),
                    None => (
                        matches!(place, Place::CallThread),
                        matches!(place, Place::SetAside),
                    ),
                },
            };
            match life.reply.take() {
                Some(reply) => self.send_error(reply, sender, reason),
                None if self.is_cast => {
                    let report = (atoms::cast_failed(), &*self.name, reason);
                    reports::send(sender, report);
                }
                // It is being answered this moment.
                None => return None,
            }
            life.phase = match runs {
                true => Phase::GivenUp {
                    since: Some(Instant::now()),
                },
                false => Phase::Done,
            };
            if runs {
                self.report_running(sender);
            }
            (life.monitor.take(), aside)
        };
        if let Some(monitor) = monitor {
            self.demonitor(sender, &monitor);
        }
        if aside {
            // To be closed.
            plain_streams::resume(self.id);
        }
        None
    }

    /// `py:cancel/1`. What waits is answered at once, a coroutine when it has ended: whether it
    /// runs is asked under the lock that the answer needs, as its loop may begin it this moment.
    pub fn cancel(&self, sender: Sender<'_>) {
        let on_loop = self.fail_unless(sender, atoms::cancelled(), |place| match place {
            Place::Loop(id) => Some(*id),
            Place::CallThread | Place::SetAside => None,
        });
        let Some(id) = on_loop else { return };
        match registry::get(id) {
            Some(native) => native.requests.cancel(&native, self.id),
            // It has ended, and tells this task, too.
            None => self.fail(sender, atoms::cancelled()),
        }
    }

    /// `result` is `{ok, Value}` or `{error, Reason}`.
    fn message<'a>(
        &self,
        env: Env<'a>,
        reply: &Reply,
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

    fn send_error(&self, reply: Reply, sender: Sender<'_>, reason: impl Encoder) {
        let error = (atoms::error(), reason);
        // A caller that died needs no answer.
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

impl Resource for Task {
    const NAME: &'static CStr = c"erlang_loop.task";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, env: Env<'_>, _pid: LocalPid) {
        self.give_up(Sender::Scheduler(env));
    }
}
