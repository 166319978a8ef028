//! A channel: items from Erlang processes to Python code, of which it holds a limited number.
//!
//! A sender that finds it full waits, with its item, for the message `{py_channel, Token, Result}`.
//! Senders that wait are let in together when half of the channel is free: so a sender wakes for
//! many items, not for each. A reader that finds the channel empty waits too: a thread for the
//! lock's bell, a task for a post to its loop.
//!
//! The resource is both ends: Erlang has it as a term, Python in an `erlang.Channel`
//! (`erlang_module/channel.rs`). Items are never copied, nor dropped, while the lock is held.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use event_loop::Awaited;
use pyo3::{Py, PyAny};
use rustler::{Encoder, Env, LocalPid, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::own_env::{OwnEnv, OwnTerm};
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::beam::terms::KeptTerm;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::spin_wait;
use crate::loops::Recipient;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any terms. The limit is a number of items.
    Terms,
    /// Binaries. The limit is a number of bytes.
    Bytes,
}

pub struct Channel {
    pub kind: Kind,
    pub limit: usize,
    pub owner: LocalPid,
    state: Awaited<State>,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// The sizes of all items.
    used: usize,
    /// In the order in which they began to wait.
    senders: VecDeque<WaitingSender>,
    tasks: VecDeque<Arc<WaitingTask>>,
    /// `erlang.Channel` objects.
    consumers: usize,
    end: Option<End>,
}

struct Item {
    term: OwnTerm,
    size: usize,
}

struct WaitingSender {
    pid: LocalPid,
    token: KeptTerm,
    item: Item,
}

/// A task that waits for an item.
pub struct WaitingTask {
    pub channel: Ref<Channel>,
    pub recipient: Recipient,
    pub future: GilCell<Option<Py<PyAny>>>,
}

/// Why nothing more is sent.
#[derive(Clone)]
pub enum End {
    /// `py_channel:close/1`.
    Closed,
    /// `py_channel:close/2`, with this reason.
    Failed(Arc<KeptTerm>),
    /// The owner has died, and has not closed it.
    OwnerDown,
    /// The consumer closed it, or there is none any more; with the exception that it gave.
    Left(Option<Arc<KeptTerm>>),
}

/// What became of an item.
pub enum Sent {
    Now,
    Full,
    /// The message `{py_channel, Token, Result}` follows.
    Later,
    Refused(End),
}

pub enum Taken {
    Item(OwnTerm),
    Empty,
    End(End),
}

impl State {
    /// Something to read, or the end.
    fn has_news(&self) -> bool {
        !self.items.is_empty() || self.end.is_some()
    }

    /// An item that is larger than the limit has room in an empty channel.
    fn has_room(&self, size: usize, limit: usize) -> bool {
        self.used == 0 || self.used.saturating_add(size) <= limit
    }

    fn push(&mut self, item: Item) {
        self.used += item.size;
        self.items.push_back(item);
    }

    /// Lets in senders that wait, if half of the channel is free.
    fn admit(&mut self, limit: usize) -> Vec<(LocalPid, KeptTerm)> {
        let mut admitted = Vec::new();
        if self.used > limit / 2 {
            return admitted;
        }
        while let Some(next) = self.senders.front()
            && self.has_room(next.item.size, limit)
            && let Some(next) = self.senders.pop_front()
        {
            self.push(next.item);
            admitted.push((next.pid, next.token));
        }
        admitted
    }
}

impl Channel {
    /// A channel of the calling process. `None`: it is being killed.
    pub fn open(env: Env<'_>, kind: Kind, limit: usize, owner: LocalPid) -> Option<Ref<Channel>> {
        let channel = Ref::new(Channel {
            kind,
            limit,
            owner,
            state: Awaited::default(),
        });
        let monitor = channel.monitor(Sender::Scheduler(env), &owner);
        monitor.map(|_| channel)
    }

    // ---- senders, on scheduler threads ----

    /// Sends a term. If there is no room, a sender with a token waits for `{py_channel, Token,
    /// Result}`.
    pub fn send(&self, env: Env<'_>, term: Term<'_>, size: usize, token: Option<Term<'_>>) -> Sent {
        if token.is_none() {
            let state = self.state.lock();
            if state.end.is_none() && !self.admits(&state, size) {
                return Sent::Full;
            }
        }
        let item = Item {
            term: OwnTerm::copy(term),
            size,
        };
        let token = token.map(KeptTerm::new);
        let (task, first) = {
            let mut state = self.state.lock();
            if let Some(end) = &state.end {
                return Sent::Refused(end.clone());
            }
            if !self.admits(&state, size) {
                let Some(token) = token else {
                    return Sent::Full;
                };
                let pid = env.pid();
                forget_dead(env, &mut state.senders);
                state.senders.push_back(WaitingSender { pid, token, item });
                return Sent::Later;
            }
            state.push(item);
            (state.tasks.pop_front(), state.items.len() == 1)
        };
        if let Some(task) = task {
            post(task);
        }
        // A thread that sleeps has found the channel empty. Since then this is the first item.
        if first {
            self.state.announce();
        }
        Sent::Now
    }

    /// Later senders queue behind those that wait.
    fn admits(&self, state: &State, size: usize) -> bool {
        state.senders.is_empty() && state.has_room(size, self.limit)
    }

    /// The sender with this token no longer waits. Returns `false` if its message is on the way.
    pub fn stop_waiting(&self, token: Term<'_>) -> bool {
        let token = KeptTerm::new(token);
        let mut state = self.state.lock();
        let found = state.senders.iter().position(|one| one.token == token);
        // Dropped after the lock is released.
        let removed = found.and_then(|index| state.senders.remove(index));
        drop(state);
        removed.is_some()
    }

    // ---- readers, on Python's threads ----

    pub fn take(&self) -> Taken {
        let (item, admitted, tasks) = {
            let mut state = self.state.lock();
            let Some(item) = state.items.pop_front() else {
                return match &state.end {
                    Some(end) => Taken::End(end.clone()),
                    None => Taken::Empty,
                };
            };
            state.used -= item.size;
            let admitted = state.admit(self.limit);
            let woken = admitted.len().min(state.tasks.len());
            let tasks: Vec<_> = state.tasks.drain(..woken).collect();
            (item, admitted, tasks)
        };
        if !admitted.is_empty() {
            self.state.announce();
            tasks.into_iter().for_each(post);
            for (pid, token) in &admitted {
                notify(Sender::Thread, pid, token, |env| atoms::ok().encode(env));
            }
        }
        Taken::Item(item.term)
    }

    /// Blocks the thread until an item or the end, or until `ends` is true after a
    /// [`wake`](Self::wake); returns `false` after a timeout.
    pub fn wait(&self, until: Option<Instant>, ends: impl Fn() -> bool) -> bool {
        spin_wait::wait(&self.state, until, |state| state.has_news() || ends())
    }

    /// The thread that waits checks whether it still wants to.
    pub fn wake(&self) {
        // After this it either sleeps, or checks later.
        drop(self.state.lock());
        self.state.announce();
    }

    /// The task is posted to when there is something to read. Returns `false` if there is already.
    pub fn wait_on_loop(&self, task: &Arc<WaitingTask>) -> bool {
        let mut state = self.state.lock();
        let waits = !state.has_news();
        if waits {
            state.tasks.push_back(task.clone());
        }
        waits
    }

    /// The task no longer waits. If it was posted to, another one is instead.
    pub fn stop_waiting_on_loop(&self, task: &Arc<WaitingTask>) {
        let removed = {
            let mut state = self.state.lock();
            let found = state.tasks.iter().position(|one| Arc::ptr_eq(one, task));
            found.and_then(|index| state.tasks.remove(index))
        };
        if removed.is_none() {
            self.pass_on();
        }
    }

    /// A task that was posted to has not read: another one may.
    pub fn pass_on(&self) {
        let next = {
            let mut state = self.state.lock();
            match state.has_news() {
                true => state.tasks.pop_front(),
                false => None,
            }
        };
        if let Some(task) = next {
            post(task);
        }
    }

    pub fn consumer_added(&self) {
        self.state.lock().consumers += 1;
    }

    /// An `erlang.Channel` object has been freed. Without any, senders would wait forever.
    pub fn consumer_gone(&self, closes: bool) {
        let last = {
            let mut state = self.state.lock();
            state.consumers -= 1;
            state.consumers == 0
        };
        if last && closes {
            self.end(Sender::Thread, End::Left(None));
        }
    }

    // ---- both ----

    pub fn is_open(&self) -> bool {
        self.state.lock().end.is_none()
    }

    /// What it holds, and how many senders wait.
    pub fn load(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.used, state.senders.len())
    }

    /// Ends it, if it is open; a consumer that leaves drops the items in any case.
    pub fn end(&self, sender: Sender<'_>, end: End) {
        let (dropped, senders, tasks) = {
            let mut state = self.state.lock();
            let leaves = matches!(end, End::Left(_));
            if state.end.is_some() && !leaves {
                return;
            }
            let dropped = match leaves {
                true => {
                    state.used = 0;
                    mem::take(&mut state.items)
                }
                false => VecDeque::new(),
            };
            if !matches!(state.end, Some(End::Left(_))) {
                state.end = Some(end.clone());
            }
            let senders = mem::take(&mut state.senders);
            (dropped, senders, mem::take(&mut state.tasks))
        };
        drop(dropped);
        self.state.announce();
        tasks.into_iter().for_each(post);
        for waiting in &senders {
            notify(sender, &waiting.pid, &waiting.token, |env| end.refusal(env));
        }
    }
}

impl End {
    /// `{error, Reason}`, for senders.
    pub fn refusal<'a>(&self, env: Env<'a>) -> Term<'a> {
        match self {
            End::Left(Some(exception)) => (atoms::error(), exception.in_env(env)).encode(env),
            _ => (atoms::error(), atoms::closed()).encode(env),
        }
    }
}

fn post(task: Arc<WaitingTask>) {
    // Another `Arc`, because the recipient is in the task.
    let posted = task.clone();
    task.recipient.post(posted);
}

fn notify(
    sender: Sender<'_>,
    pid: &LocalPid,
    token: &KeptTerm,
    result: impl for<'a> FnOnce(Env<'a>) -> Term<'a>,
) {
    // A sender that has died needs no message.
    match sender {
        Sender::Scheduler(env) => {
            let _ = env.send(pid, (atoms::py_channel(), token.in_env(env), result(env)));
        }
        Sender::Thread => {
            let own = OwnEnv::new();
            let message =
                own.with(|env| own.keep((atoms::py_channel(), token.in_env(env), result(env))));
            let _ = own.send(pid, message);
        }
    }
}

/// Senders that were killed while they waited: their items must not pile up. Looked for only when
/// the number of senders is a power of two, so that the effort for each stays constant.
fn forget_dead(env: Env<'_>, senders: &mut VecDeque<WaitingSender>) {
    if senders.len() >= 16 && senders.len().is_power_of_two() {
        senders.retain(|one| one.pid.is_alive(env));
    }
}

impl Resource for Channel {
    const NAME: &'static CStr = c"erlang_loop.channel";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, env: Env<'_>, _pid: LocalPid) {
        self.end(Sender::Scheduler(env), End::OwnerDown);
    }
}
