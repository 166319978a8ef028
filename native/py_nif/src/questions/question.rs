//! A question's life.
//!
//! ```text
//! Asked ──> Begun ──> Answered ──> Over    its answer was taken
//!   └─────────┴─────────────────────┘      nobody wants it any more
//! ```
//!
//! Erlang has it as a resource, Python as a plain reference. So when the last term of it goes
//! without an answer, because the process that had it died, that is the answer: nobody waits for
//! ever.

use std::ffi::CStr;
use std::sync::Arc;
use std::time::Instant;

use event_loop::Awaited;
use pyo3::{Py, PyAny};
use rustler::{Atom, Encoder, Env, LocalPid, Term};

use super::chain::{self, Chain};
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::own_env::{Kept, OwnEnv};
use crate::beam::resource::{Resource, TypeCell};
use crate::loops::Recipient;
use crate::python::{spinning, GilCell};

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

    /// Of what `build` makes in that environment.
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
    /// The process that was to answer is gone.
    Lost,
}

/// Who is told of the answer.
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
    /// What waits for this answer and so cannot run Python code meanwhile.
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

    /// What is asked, for the calling process, which answers it. `None`: nobody wants to know.
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

    /// The one answer; later ones are dropped. Any thread.
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

    /// Waits until it is answered, or until then: `false`.
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

    /// Nobody wants to know any more. The process that runs it, if one does.
    pub fn give_up(self: &Arc<Self>) -> Option<LocalPid> {
        // What was there is let go of after the lock.
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

/// A question as Erlang has it.
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
