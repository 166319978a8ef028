//! Which process asked for the Python code that runs.

use std::sync::Arc;

use rustler::{Env, LocalPid, Term};

use crate::atoms;
use crate::beam::names;
use crate::beam::terms::KeptTerm;

/// The process that called Python, and its group leader at that moment.
pub struct Origin {
    pub caller: LocalPid,
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
    /// The origin of the calling process.
    pub fn new(env: Env<'_>, leader: Term<'_>) -> Arc<Self> {
        Arc::new(Origin {
            caller: env.pid(),
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
