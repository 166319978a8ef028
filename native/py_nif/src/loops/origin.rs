//! Which process asked for the Python code that runs, and for which trace.

use std::sync::Arc;

use std::sync::atomic::{AtomicBool, Ordering};

use rustler::{Env, LocalPid, Term};

use crate::atoms;
use crate::beam::names;
use crate::beam::terms::KeptTerm;

/// Set when the first request with a trace arrives, or when Python asks for it.
static TRACES: AtomicBool = AtomicBool::new(false);

/// Whether calls to Erlang have to carry their trace.
pub fn traces() -> bool {
    // Relaxed: nothing else depends on it, and the thread that reads a trace has seen its request.
    TRACES.load(Ordering::Relaxed)
}

pub fn begin_traces() {
    TRACES.store(true, Ordering::Relaxed);
}

/// The process that called Python, and its group leader at that moment.
pub struct Origin {
    pub caller: LocalPid,
    /// The caller's `traceparent` (`py_trace`).
    pub trace: Option<Box<str>>,
    leader: KeptTerm,
    /// The leader, if it is a process of this node.
    local: Option<LocalPid>,
}

/// The destination of printed text.
#[derive(Clone)]
pub enum Target {
    Local(LocalPid),
    /// The group leader is on another node: a shell there called a function here.
    Remote(Arc<Origin>),
}

impl Origin {
    /// The origin of the calling process: its group leader, or `{Leader, Traceparent}`.
    pub fn new(env: Env<'_>, leader: Term<'_>) -> Arc<Self> {
        let (leader, trace) = match leader.is_tuple() {
            false => (leader, None),
            true => match leader.decode::<(Term<'_>, &str)>() {
                Ok((leader, trace)) => {
                    begin_traces();
                    (leader, Some(trace.into()))
                }
                Err(_) => (leader, None),
            },
        };
        Arc::new(Origin {
            caller: env.pid(),
            trace,
            local: leader.decode().ok(),
            leader: KeptTerm::new(leader),
        })
    }

    pub fn target(self: &Arc<Self>) -> Target {
        match self.local {
            Some(pid) => Target::Local(pid),
            None => Target::Remote(self.clone()),
        }
    }

    pub fn leader<'a>(&self, env: Env<'a>) -> Term<'a> {
        self.leader.in_env(env)
    }
}

impl Target {
    /// `user`, which exists except while the node ends.
    pub fn user() -> Option<Target> {
        names::whereis(atoms::user()).map(Target::Local)
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Target::Local(one), Target::Local(two)) => one == two,
            (Target::Remote(one), Target::Remote(two)) => one.leader == two.leader,
            _ => false,
        }
    }
}
