//! The life of a question.
//!
//! ```text
//! Sent ──> Running ──> Replied ──> Over    its reply was taken
//!   └─────────┴───────────────────┘        no caller waits any more
//! ```
//!
//! Erlang holds it as a resource, Python as a plain reference. So when the last term of it is
//! collected without a reply, because the process that had it died, that is the reply: no caller
//! waits forever.

use std::ffi::CStr;
use std::sync::Arc;
use std::time::Instant;

use event_loop::Awaited;
use pyo3::{Py, PyAny};
use rustler::{Atom, LocalPid};

use super::chain;
use super::chain::Chain;
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::own_env::OwnTerm;
use crate::beam::resource::{Resource, TypeCell};
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::spin_wait;
use crate::loops::Recipient;

pub enum Reply {
    Value(OwnTerm),
    /// `error`, `exit` or `throw`, and `{Reason, Stacktrace}`.
    Raised(Atom, OwnTerm),
    /// The process that was to reply is gone.
    Lost,
}

/// What to notify of the reply.
pub enum Waiter {
    /// A thread in [`Question::wait`].
    Thread,
    /// A future of this loop.
    Loop(Recipient, GilCell<Option<Py<PyAny>>>),
}

enum QuestionState {
    Sent,
    /// This process runs it.
    Running(LocalPid),
    Replied(Reply),
    Over,
}

impl QuestionState {
    fn is_open(&self) -> bool {
        matches!(self, QuestionState::Sent | QuestionState::Running(_))
    }
}

pub struct Question {
    pub waiter: Waiter,
    /// What waits for this reply and so cannot run Python code meanwhile.
    pub chain: Chain,
    /// Its lock is never held while a term is copied or Python runs.
    state: Awaited<QuestionState>,
}

impl Question {
    pub fn new(waiter: Waiter, chain: Chain) -> Arc<Self> {
        Arc::new(Question {
            waiter,
            chain,
            state: Awaited::new(QuestionState::Sent),
        })
    }

    /// The process `pid` runs it from now on. Returns `false` if no caller waits any more.
    pub fn begin(self: &Arc<Self>, pid: LocalPid) -> bool {
        let mut state = self.state.lock();
        let begins = matches!(*state, QuestionState::Sent);
        if begins {
            *state = QuestionState::Running(pid);
            chain::begun(pid, self);
        }
        begins
    }

    pub fn is_wanted(&self) -> bool {
        self.state.lock().is_open()
    }

    /// Sets the reply; later ones are dropped. From any thread.
    pub fn reply(self: &Arc<Self>, reply: Reply) {
        {
            let mut state = self.state.lock();
            match &*state {
                QuestionState::Sent => {}
                QuestionState::Running(pid) => chain::ended(pid, self),
                QuestionState::Replied(_) | QuestionState::Over => return,
            }
            *state = QuestionState::Replied(reply);
        }
        match &self.waiter {
            Waiter::Thread => self.state.announce(),
            Waiter::Loop(recipient, _) => recipient.post(self.clone()),
        }
    }

    /// Waits for the reply, or until `ends` is true after a [`wake`](Self::wake); returns `false` if
    /// neither has come by `until`.
    pub fn wait(&self, until: Option<Instant>, ends: impl Fn() -> bool) -> bool {
        spin_wait::wait(&self.state, until, |state| !state.is_open() || ends())
    }

    /// The thread that waits checks whether it still wants to.
    pub fn wake(&self) {
        // After this it either sleeps, or checks later.
        drop(self.state.lock());
        self.state.announce();
    }

    pub fn take_reply(&self) -> Option<Reply> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, QuestionState::Over) {
            QuestionState::Replied(reply) => Some(reply),
            other => {
                *state = other;
                None
            }
        }
    }

    /// The caller no longer waits. Returns the process that runs the question, if there is one.
    pub fn abandon(self: &Arc<Self>) -> Option<LocalPid> {
        // The old state is dropped after the lock is released.
        let before = std::mem::replace(&mut *self.state.lock(), QuestionState::Over);
        match before {
            QuestionState::Running(pid) => {
                chain::ended(&pid, self);
                Some(pid)
            }
            _ => None,
        }
    }
}

/// A question as a term in Erlang.
pub struct QuestionRef(pub Arc<Question>);

impl Resource for QuestionRef {
    const NAME: &'static CStr = c"erlang_loop.question";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn destroy(self, _sender: Sender<'_>) {
        self.0.reply(Reply::Lost);
    }
}

/// `error`, `exit`, `throw`: what [`Reply::Raised`] begins with.
pub fn kind_text(kind: Atom) -> &'static str {
    if kind == atoms::exit() {
        "exit"
    } else if kind == atoms::throw() {
        "throw"
    } else {
        "error"
    }
}
