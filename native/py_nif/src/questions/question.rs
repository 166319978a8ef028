//! The life of a question.
//!
//! ```text
//! Asked ──> Begun ──> Answered ──> Over    its reply was taken
//!   └─────────┴─────────────────────┘      no caller waits any more
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
use rustler::{Atom, Encoder, Env, LocalPid, Term};

use super::chain;
use super::chain::Chain;
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::own_env::{Kept, OwnEnv};
use crate::beam::resource::{Resource, TypeCell};
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::spinning;
use crate::loops::Recipient;

/// A term in an environment of its own.
pub struct Terms {
    env: OwnEnv,
    term: Kept,
}

impl Terms {
    pub fn copy(term: impl Encoder) -> Self {
        let env = OwnEnv::new();
        let term = env.keep(term);
        Terms { env, term }
    }

    /// The term that `build` creates in that environment.
    pub fn build<E>(build: impl for<'a> FnOnce(Env<'a>) -> Result<Term<'a>, E>) -> Result<Self, E> {
        let env = OwnEnv::new();
        let term = env.with(|inner| build(inner).map(|term| env.keep(term)))?;
        Ok(Terms { env, term })
    }

    pub fn with<R>(&self, look: impl FnOnce(Term<'_>) -> R) -> R {
        look(self.env.load(self.term))
    }
}

pub enum Answer {
    Value(Terms),
    /// `error`, `exit` or `throw`, and `{Reason, Stacktrace}`.
    Raised(Atom, Terms),
    /// The process that was to reply is gone.
    Lost,
}

/// What to notify of the reply.
pub enum Waiter {
    /// A thread in [`Question::wait`].
    Thread,
    /// A future of this loop.
    Loop(Recipient, GilCell<Option<Py<PyAny>>>),
    Nobody,
}

enum Life {
    Asked(Terms),
    /// This process runs it.
    Begun(LocalPid),
    Answered(Answer),
    Over,
}

impl Life {
    fn is_open(&self) -> bool {
        matches!(self, Life::Asked(_) | Life::Begun(_))
    }
}

pub struct Question {
    pub waiter: Waiter,
    /// What waits for this reply and so cannot run Python code meanwhile.
    pub chain: Chain,
    /// Its lock is never held while a term is copied or Python runs.
    life: Awaited<Life>,
}

impl Question {
    pub fn new(terms: Terms, waiter: Waiter, chain: Chain) -> Arc<Self> {
        Arc::new(Question {
            waiter,
            chain,
            life: Awaited::new(Life::Asked(terms)),
        })
    }

    /// The terms of the question, for the calling process, which runs it. `None`: no caller waits.
    pub fn take<'a>(self: &Arc<Self>, env: Env<'a>) -> Option<Term<'a>> {
        let pid = env.pid();
        let terms = {
            let mut life = self.life.lock();
            match std::mem::replace(&mut *life, Life::Over) {
                Life::Asked(terms) => {
                    *life = Life::Begun(pid);
                    chain::begun(pid, self);
                    terms
                }
                other => {
                    *life = other;
                    return None;
                }
            }
        };
        Some(terms.with(|term| term.in_env(env)))
    }

    pub fn is_wanted(&self) -> bool {
        self.life.lock().is_open()
    }

    /// Sets the reply; later ones are dropped. From any thread.
    pub fn answer(self: &Arc<Self>, answer: Answer) {
        {
            let mut life = self.life.lock();
            match &*life {
                Life::Asked(_) => {}
                Life::Begun(pid) => chain::ended(pid, self),
                Life::Answered(_) | Life::Over => return,
            }
            *life = match self.waiter {
                Waiter::Nobody => Life::Over,
                _ => Life::Answered(answer),
            };
        }
        match &self.waiter {
            Waiter::Thread => self.life.tell(),
            Waiter::Loop(recipient, _) => recipient.post(self.clone()),
            Waiter::Nobody => {}
        }
    }

    /// Waits for the reply; returns `false` if it has not come by `until`.
    pub fn wait(&self, until: Option<Instant>) -> bool {
        spinning::wait(&self.life, until, |life| !life.is_open())
    }

    pub fn take_answer(&self) -> Option<Answer> {
        let mut life = self.life.lock();
        match std::mem::replace(&mut *life, Life::Over) {
            Life::Answered(answer) => Some(answer),
            other => {
                *life = other;
                None
            }
        }
    }

    /// The caller no longer waits. Returns the process that runs the question, if there is one.
    pub fn give_up(self: &Arc<Self>) -> Option<LocalPid> {
        // The old state is dropped after the lock is released.
        let before = std::mem::replace(&mut *self.life.lock(), Life::Over);
        match before {
            Life::Begun(pid) => {
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
        self.0.answer(Answer::Lost);
    }
}

/// `error`, `exit`, `throw`: what [`Answer::Raised`] begins with.
pub fn kind_text(kind: Atom) -> &'static str {
    if kind == atoms::exit() {
        "exit"
    } else if kind == atoms::throw() {
        "throw"
    } else {
        "error"
    }
}
