//! Which process asked for the Python code that runs.

use std::cell::RefCell;
use std::sync::Arc;

use rustler::{Encoder, Env, LocalPid, Term};

use crate::atoms;
use crate::beam::names;
use crate::beam::terms::KeptTerm;

/// The process that called Python, and its group leader at that moment.
pub struct Origin {
    pub caller: LocalPid,
    /// A number that distinguishes most processes.
    pub caller_number: u64,
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

/// How many callers the thread of a scheduler remembers.
const REMEMBERED: usize = 256;

thread_local! {
    /// By caller number, because the same processes call repeatedly.
    static LATELY: RefCell<Vec<Option<Arc<Origin>>>> = const { RefCell::new(Vec::new()) };
}

impl Origin {
    /// The origin of the calling process.
    pub fn new(env: Env<'_>, leader: Term<'_>) -> Arc<Self> {
        let caller = env.pid();
        let caller_number = caller.encode(env).hash_internal(0);
        let local: Option<LocalPid> = leader.decode().ok();
        let make = || {
            Arc::new(Origin {
                caller,
                caller_number,
                local,
                leader: KeptTerm::new(leader),
            })
        };
        if local.is_none() {
            return make();
        }
        LATELY.with_borrow_mut(|lately| {
            if lately.is_empty() {
                lately.resize(REMEMBERED, None);
            }
            let place = &mut lately[caller_number as usize % REMEMBERED];
            match place {
                Some(known) if known.caller == caller && known.local == local => known.clone(),
                _ => place.insert(make()).clone(),
            }
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

    /// Whether both have the same caller and the same group leader.
    pub fn is_same(&self, other: &Self) -> bool {
        self.caller == other.caller && self.leader == other.leader
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
