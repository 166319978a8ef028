//! A loop of the core, with its keeper in the VM and its orderly end.
//!
//! Two kinds of code drive a loop: Erlang processes through `py_nif` (`Driver::Erlang`: events are
//! collected here and taken with `get_pending/1`), or a Python thread that runs turns
//! (`Driver::Python`: the thread collects events, and this file only concerns its sleep).
//!
//! This file creates loops. `keeping` chooses the keeper while the loop sleeps, `waking` wakes the
//! loop for a deadline, `ending` closes it.

mod ending;
mod keeping;
mod waking;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use event_loop::{EventLoop, Inbox, WaitPolicy};
use rustler::{Env, LocalPid};

use super::LoopThread;
use super::erlang_side::{ErlangSide, Receiver};
use super::keeper::{Keeper, Role};
use super::recorder::Recorder;
use super::signals::Signals;
use super::{Assignment, ChooseRunner, PollSet, Posted, Pulse, Requests, TaskList, registry};
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::{Error, Result};

pub enum Driver {
    /// Boxed, because most loops are Python's.
    Erlang(Box<Mutex<ErlangSide>>),
    Python,
    /// A thread that runs several loops waits on one of its own. It runs nothing, so lists of loops leave
    /// it out.
    Runner,
}

pub struct NativeLoop {
    pub id: u64,
    /// The process that started it, if Erlang did.
    pub owner: Option<LocalPid>,
    pub core: EventLoop,
    pub policy: WaitPolicy,
    pub signals: Signals,
    /// Requests from Erlang, if Erlang started it.
    pub requests: Option<Box<dyn Requests>>,
    pub pulse: Pulse,
    pub recorder: Recorder,
    pub task_list: TaskList,
    /// The thread that runs it, if it takes requests.
    pub thread: OnceLock<LoopThread>,
    /// Replies and messages from Erlang for code that runs on this loop.
    pub posts: Inbox<Arc<dyn Posted>>,
    /// Where it runs, if Erlang started it.
    pub assignment: Option<Arc<Assignment>>,
    pub(super) driver: Driver,
    watch: Mutex<Watch>,
    /// Whether the VM's poller has ever seen the epoll fd; if not, closing needs no STOP.
    ever_armed: AtomicBool,
    /// When the keeper's `send_after` fires (ns), 0 for none. Written under `watch`'s lock, read by
    /// any thread.
    beam_timer: AtomicU64,
    /// The worker that owned this loop died: the thread that runs it must stop.
    orphaned: AtomicBool,
}

/// The keeper of a sleeping loop. The lock guards all fields together: there is a keeper only with
/// the object it monitors, and all fields are empty once the loop is closed.
#[derive(Default)]
struct Watch {
    /// An open loop driven from Erlang holds itself: closing it frees it.
    itself: Option<Arc<NativeLoop>>,
    poll_set: Option<Ref<PollSet>>,
    keeper: Option<Keeper>,
    closed: bool,
}

/// The additional state of a loop that takes requests.
#[derive(Default)]
struct Served {
    owner: Option<LocalPid>,
    requests: Option<Box<dyn Requests>>,
    choice: Option<Box<dyn ChooseRunner>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // State changes below are single assignments, so a panic cannot leave them half done.
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl NativeLoop {
    /// A loop driven by Erlang, kept by the default router if there is one. Its events wait to be
    /// taken, or are sent to `receiver`.
    pub fn for_erlang(sender: Sender<'_>, receiver: Option<Receiver>) -> Result<Arc<Self>> {
        let native = Self::create(
            Driver::Erlang(Box::new(Mutex::new(ErlangSide::new(receiver)))),
            WaitPolicy::default(),
            Served::default(),
        )?;
        locked(&native.watch).itself = Some(native.clone());
        if let Some(router) = registry::default_router() {
            // If the router died at this moment, its successor adopts the loop.
            let _ = native.adopt(sender, router, Role::Router, false);
        }
        Ok(native)
    }

    /// A loop run by a Python thread. It gets its keeper when it first sleeps.
    pub fn for_python(policy: WaitPolicy) -> Result<Arc<Self>> {
        Self::create(Driver::Python, policy, Served::default())
    }

    /// What a thread that runs several loops waits on.
    pub fn for_runner() -> Result<Arc<Self>> {
        Self::create(Driver::Runner, WaitPolicy::default(), Served::default())
    }

    pub fn is_of_runner(&self) -> bool {
        matches!(self.driver, Driver::Runner)
    }

    /// As [`for_python`](Self::for_python), for a loop that the calling process starts and owns. It
    /// rests, and `choice` finds a thread for it when it is first woken.
    pub fn for_requests(
        env: Env<'_>,
        policy: WaitPolicy,
        requests: Box<dyn Requests>,
        choice: Box<dyn ChooseRunner>,
    ) -> Result<Arc<Self>> {
        let served = Served {
            owner: Some(env.pid()),
            requests: Some(requests),
            choice: Some(choice),
        };
        let native = Self::create(Driver::Python, policy, served)?;
        registry::insert_owned(&native);
        native.adopt(Sender::Scheduler(env), env.pid(), Role::Worker, true)?;
        // A new keeper wakes its loop.
        while !native.core.parking.rest() {}
        Ok(native)
    }

    fn create(driver: Driver, policy: WaitPolicy, served: Served) -> Result<Arc<Self>> {
        let id = registry::new_id();
        let assignment = served
            .choice
            .map(|choice| Arc::new(Assignment::new(id, choice)));
        let native = Arc::new(NativeLoop {
            id,
            owner: served.owner,
            core: match (&assignment, &driver) {
                (Some(assignment), _) => EventLoop::with_runner(assignment.clone()),
                (None, Driver::Erlang(_)) => EventLoop::new()?,
                // Many loops run one coroutine that never waits for a descriptor.
                (None, Driver::Python | Driver::Runner) => EventLoop::without_descriptors(),
            },
            policy,
            signals: Signals::default(),
            requests: served.requests,
            pulse: Pulse::default(),
            recorder: Recorder::default(),
            task_list: TaskList::default(),
            posts: Inbox::new(),
            thread: OnceLock::new(),
            assignment,
            driver,
            watch: Mutex::default(),
            ever_armed: AtomicBool::new(false),
            beam_timer: AtomicU64::new(0),
            orphaned: AtomicBool::new(false),
        });
        if let Some(assignment) = &native.assignment {
            assignment.set_native(&native);
        }
        registry::insert(&native);
        Ok(native)
    }

    pub fn erlang_side(&self) -> Option<MutexGuard<'_, ErlangSide>> {
        match &self.driver {
            Driver::Erlang(side) => Some(locked(side)),
            Driver::Python | Driver::Runner => None,
        }
    }

    pub fn is_closed(&self) -> bool {
        locked(&self.watch).closed
    }

    pub fn check_open(&self) -> Result<()> {
        match self.is_closed() {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    pub fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Acquire)
    }

    /// Whether its thread has to look at its requests.
    pub fn has_requests(&self) -> bool {
        self.requests
            .as_ref()
            .is_some_and(|requests| requests.any(self))
    }

    /// The loop is about to sleep.
    pub fn monitor_callers(&self) {
        if let Some(requests) = &self.requests {
            requests.monitor_callers();
        }
    }

    fn end_requests(&self, sender: Sender<'_>) {
        if let Some(requests) = &self.requests {
            requests.end(sender);
        }
    }

    pub fn keeper_pid(&self) -> Option<LocalPid> {
        locked(&self.watch).keeper.as_ref().map(|keeper| keeper.pid)
    }
}
