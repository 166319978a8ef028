//! A loop of the core, with its keeper in the VM and its orderly end.
//!
//! Two kinds of code drive one: Erlang processes through `py_nif` (`Driver::Erlang`: events are
//! collected here and taken with `get_pending/1`), or a Python thread that runs turns
//! (`Driver::Python`: it harvests by itself, and only sleeping concerns this file).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use event_loop::{now_ns, plan_timer, EventLoop, Inbox, TimerPlan, WaitPolicy};
use rustler::{Env, LocalPid};

use super::erlang_side::{ErlangSide, Receiver, Why};
use super::keeper::{Keeper, Role};
use super::signals::Signals;
use super::{registry, Place, PollSet, Posted, Pulse, RequestLimits, Requests, Seat};
use crate::atoms;
use crate::beam::message::{self, Sender};
use crate::beam::resource::Ref;
use crate::beam::select;
use crate::error::{Error, Result};
use crate::questions::chain::LoopThread;

/// A week.
const MAX_BEAM_DELAY_MS: u64 = 7 * 24 * 3600 * 1000;

pub enum Driver {
    /// Boxed, because most loops are Python's.
    Erlang(Box<Mutex<ErlangSide>>),
    Python,
}

pub struct NativeLoop {
    pub id: u64,
    /// The process that started it, if Erlang did.
    pub owner: Option<LocalPid>,
    pub core: EventLoop,
    pub policy: WaitPolicy,
    pub signals: Signals,
    pub requests: Requests,
    pub pulse: Pulse,
    /// The thread that runs it, if it takes requests.
    pub thread: OnceLock<LoopThread>,
    /// Answers and messages of Erlang for code that runs on this loop.
    pub posts: Inbox<Arc<dyn Posted>>,
    /// Where it runs, if Erlang started it.
    pub seat: Option<Arc<Seat>>,
    pub(super) driver: Driver,
    watch: Mutex<Watch>,
    /// Whether the VM's poller has ever seen the epoll fd; if not, closing needs no STOP.
    ever_armed: AtomicBool,
    /// When the keeper's `send_after` fires (ns), 0 for none. Written under `watch`'s lock, read
    /// by anyone.
    beam_timer: AtomicU64,
    /// The worker that owned this loop died: whoever runs it must stop.
    orphaned: AtomicBool,
}

/// Who looks after the loop while it sleeps. The lock guards all fields together: a keeper is
/// only there with the object it monitors, and nothing is there once it is closed.
#[derive(Default)]
struct Watch {
    /// A loop driven from Erlang holds itself while it is open: closing it is what frees it.
    itself: Option<Arc<NativeLoop>>,
    poll_set: Option<Ref<PollSet>>,
    keeper: Option<Keeper>,
    closed: bool,
}

/// What a loop that takes requests has more than others.
#[derive(Default)]
struct Served {
    owner: Option<LocalPid>,
    limits: RequestLimits,
    place: Option<Box<dyn Place>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // State changes below are single assignments, so a panic cannot leave them half done.
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl NativeLoop {
    /// A loop driven by Erlang, kept by the default router if there is one. Its events wait to
    /// be taken, or are sent to `receiver`.
    pub fn for_erlang(sender: Sender<'_>, receiver: Option<Receiver>) -> Result<Arc<Self>> {
        let native = Self::create(
            Driver::Erlang(Box::new(Mutex::new(ErlangSide::new(receiver)))),
            WaitPolicy::default(),
            Served::default(),
        )?;
        locked(&native.watch).itself = Some(native.clone());
        if let Some(router) = registry::default_router() {
            // A router that died this moment: its successor adopts the loop.
            let _ = native.adopt(sender, router, Role::Router, false);
        }
        Ok(native)
    }

    /// A loop run by a Python thread. It gets its keeper when it first sleeps.
    pub fn for_python(policy: WaitPolicy) -> Result<Arc<Self>> {
        Self::create(Driver::Python, policy, Served::default())
    }

    /// As [`for_python`](Self::for_python), for a loop that the calling process starts and owns.
    /// It takes requests, and has at most `limits` of them. It rests, and `place` finds a
    /// thread for it when it is first woken.
    pub fn for_requests(
        env: Env<'_>,
        policy: WaitPolicy,
        limits: RequestLimits,
        place: Box<dyn Place>,
    ) -> Result<Arc<Self>> {
        let served = Served {
            owner: Some(env.pid()),
            limits,
            place: Some(place),
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
        let seat = served.place.map(|place| Arc::new(Seat::new(id, place)));
        let native = Arc::new(NativeLoop {
            id,
            owner: served.owner,
            core: match &seat {
                Some(seat) => EventLoop::carried_by(seat.clone()),
                None => EventLoop::new()?,
            },
            policy,
            signals: Signals::default(),
            requests: Requests::new(served.limits),
            pulse: Pulse::default(),
            posts: Inbox::new(),
            thread: OnceLock::new(),
            seat,
            driver,
            watch: Mutex::default(),
            ever_armed: AtomicBool::new(false),
            beam_timer: AtomicU64::new(0),
            orphaned: AtomicBool::new(false),
        });
        if let Some(seat) = &native.seat {
            seat.set_native(&native);
        }
        registry::insert(&native);
        Ok(native)
    }

    pub fn erlang_side(&self) -> Option<MutexGuard<'_, ErlangSide>> {
        match &self.driver {
            Driver::Erlang(side) => Some(locked(side)),
            Driver::Python => None,
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

    pub fn keeper_pid(&self) -> Option<LocalPid> {
        locked(&self.watch).keeper.as_ref().map(|keeper| keeper.pid)
    }

    // ---- keepers ----

    /// Puts the loop into the care of `pid`. With `replace` it takes the loop from another
    /// keeper, else only a loop without one is taken, or one kept by a process that waits for it.
    /// `false`: there is no such process.
    pub fn adopt(
        self: &Arc<Self>,
        sender: Sender<'_>,
        pid: LocalPid,
        role: Role,
        replace: bool,
    ) -> Result<bool> {
        {
            let mut watch = locked(&self.watch);
            if watch.closed {
                return Err(Error::Closed);
            }
            if let Some(keeper) = &watch.keeper {
                let waits = keeper.role == Role::Waiter && role != Role::Waiter;
                if !replace && !waits {
                    return Ok(true);
                }
            }
            let poll_set = watch
                .poll_set
                .get_or_insert_with(|| Ref::new(PollSet::new(self.clone())))
                .clone();
            let Some(keeper) = Keeper::new(sender, &poll_set, pid, role) else {
                return Ok(false);
            };
            if let Some(old) = watch.keeper.replace(keeper) {
                old.dismiss(sender, &poll_set);
            }
            self.beam_timer.store(0, Ordering::Release);
        }
        self.ask_anew(sender);
        Ok(true)
    }

    /// What was asked of an earlier keeper counts no more: a sleeping Python thread wakes and
    /// asks the new one, a loop driven from Erlang is armed here.
    fn ask_anew(self: &Arc<Self>, sender: Sender<'_>) {
        self.core.parking.forget_arming();
        if let (Driver::Erlang(_), Sender::Scheduler(env)) = (&self.driver, sender) {
            self.pump(env);
            self.arm_if_needed(env);
        }
    }

    /// The process in `keeper` died (`down` callback, scheduler thread).
    pub fn keeper_died(self: &Arc<Self>, env: Env<'_>, pid: &LocalPid) {
        let role = {
            let mut watch = locked(&self.watch);
            match &watch.keeper {
                Some(keeper) if keeper.pid == *pid => {}
                _ => return,
            }
            self.beam_timer.store(0, Ordering::Release);
            watch.keeper.take().map(|keeper| keeper.role)
        };
        registry::forget_default_router(pid);
        let sender = Sender::Scheduler(env);
        if role == Some(Role::Worker) {
            // Its owner is gone: who waits is told so, before the thread that runs the loop sees it
            // and cancels tasks, whose answer would be another. That thread must leave it first.
            self.requests.end(sender);
            self.orphaned.store(true, Ordering::Release);
            // Futures of a closed loop: nobody waits for them.
            self.posts.close();
            drop(self.posts.take());
            let nobody_runs_it = self.seat.as_ref().is_some_and(|seat| seat.give_up());
            return match &self.driver {
                Driver::Python if !nobody_runs_it => self.core.parking.forget_arming(),
                _ => self.close(sender),
            };
        }
        self.find_keeper(sender, pid);
    }

    /// The process that kept the loop while it waited in `poll_events/2` goes on. `true`: the VM
    /// has sent it a `{select, ...}` that it has not taken yet.
    pub fn waiter_leaves(self: &Arc<Self>, env: Env<'_>) -> bool {
        let sender = Sender::Scheduler(env);
        let pid = env.pid();
        let message_sent = {
            let mut watch = locked(&self.watch);
            let waiter = watch
                .keeper
                .take_if(|keeper| keeper.role == Role::Waiter && keeper.pid == pid);
            let (Some(waiter), Some(poll_set)) = (waiter, &watch.poll_set) else {
                return false;
            };
            waiter.dismiss(sender, poll_set);
            self.core.parking.is_armed()
                && self
                    .core
                    .raw_fd()
                    .is_some_and(|fd| !select::cancel(env, fd, poll_set))
        };
        self.find_keeper(sender, &pid);
        message_sent
    }

    /// The keeper `gone` keeps the loop no more: the node's router does, or nobody. Then a Python
    /// thread waits by itself, and a loop driven from Erlang falls back to its timerfd and to
    /// the processes that wait for it.
    fn find_keeper(self: &Arc<Self>, sender: Sender<'_>, gone: &LocalPid) {
        let adopted = registry::default_router()
            .filter(|router| router != gone)
            .is_some_and(|router| {
                matches!(self.adopt(sender, router, Role::Router, false), Ok(true))
            });
        if !adopted {
            self.core.parking.forget_arming();
            if let Some(mut side) = self.erlang_side() {
                let deadline = side.timers.next_deadline();
                self.plan_wake(sender, deadline);
                side.notify(sender, Why::Look);
            }
        }
    }

    /// The poll set, if `pid` is who keeps it.
    pub fn poll_set_kept_by(&self, pid: &LocalPid) -> Option<Ref<PollSet>> {
        let watch = locked(&self.watch);
        let kept = watch
            .keeper
            .as_ref()
            .is_some_and(|keeper| keeper.pid == *pid);
        watch.poll_set.clone().filter(|_| kept)
    }

    // ---- arming ----

    /// Has the VM watch the epoll set, for the keeper. Scheduler threads only.
    pub fn arm_if_needed(&self, env: Env<'_>) {
        let watch = locked(&self.watch);
        if let (Some(poll_set), Some(keeper)) = (&watch.poll_set, &watch.keeper) {
            if !watch.closed && self.core.parking.try_arm() {
                self.select(env, poll_set, &keeper.pid);
            }
        }
    }

    /// The keeper was asked by a sleeping Python thread (which has set the armed flag).
    pub fn arm_for_keeper(&self, env: Env<'_>, poll_set: &Ref<PollSet>) {
        let watch = locked(&self.watch);
        match &watch.keeper {
            Some(keeper) if !watch.closed => self.select(env, poll_set, &keeper.pid),
            // The request came from before a change of keepers: the thread asks again.
            _ => self.core.parking.forget_arming(),
        }
    }

    fn select(&self, env: Env<'_>, poll_set: &Ref<PollSet>, pid: &LocalPid) {
        let Some(fd) = self.core.raw_fd() else {
            // Nobody waits on a set that is not there.
            return self.core.parking.forget_arming();
        };
        self.ever_armed.store(true, Ordering::Release);
        if !select::arm(env, fd, poll_set, pid) {
            // The VM refused (it says why in its log): a sleeper must not trust the arming.
            self.core.parking.forget_arming();
        }
    }

    /// Asks the keeper to arm, from the thread that is about to sleep. `false`: there is nobody,
    /// wait directly.
    pub fn request_arm(self: &Arc<Self>) -> bool {
        let (pid, poll_set) = {
            let watch = locked(&self.watch);
            match (&watch.keeper, &watch.poll_set) {
                (Some(keeper), Some(poll_set)) => (keeper.pid, poll_set.clone()),
                _ => return false,
            }
        };
        message::send(Sender::Thread, &pid, (atoms::arm(), poll_set))
    }

    /// Gives a Python loop the default router when it has no keeper yet.
    pub fn ensure_keeper(self: &Arc<Self>) -> bool {
        if locked(&self.watch).keeper.is_some() {
            return true;
        }
        match registry::default_router() {
            Some(router) => {
                matches!(
                    self.adopt(Sender::Thread, router, Role::Router, false),
                    Ok(true)
                )
            }
            None => false,
        }
    }

    // ---- time ----

    /// Sees to it that the loop is looked at when `deadline` comes, though its thread sleeps:
    /// by the timerfd in the epoll set when it is near, else by the keeper's `send_after`.
    pub fn plan_wake(&self, sender: Sender<'_>, deadline: Option<u64>) {
        let delay_ms = match plan_timer(now_ns(), deadline, &self.policy) {
            TimerPlan::Beam { delay_ms } => delay_ms,
            TimerPlan::TimerFd(when) => return self.set_timerfd(Some(when)),
            TimerPlan::None => return self.set_timerfd(None),
        };
        let deadline = deadline.unwrap_or(u64::MAX);
        let Some(keeper) = self.timer_keeper() else {
            return self.set_timerfd(Some(deadline));
        };
        let held = self.beam_timer.load(Ordering::Acquire);
        if held != 0 && held <= deadline {
            // An earlier one comes anyway and plans again.
            return self.set_timerfd(None);
        }
        self.beam_timer.store(deadline, Ordering::Release);
        // The VM refuses times beyond its own end. A timer that comes too early plans again.
        let request = (
            atoms::loop_timer(),
            self.id,
            delay_ms.min(MAX_BEAM_DELAY_MS),
        );
        let asked = message::send(sender, &keeper, request);
        if asked {
            self.set_timerfd(None);
        } else {
            self.beam_timer.store(0, Ordering::Release);
            self.set_timerfd(Some(deadline));
        }
    }

    /// Who can hold a `send_after`: not a process that waits in `poll_events/2`.
    fn timer_keeper(&self) -> Option<LocalPid> {
        let watch = locked(&self.watch);
        let keeper = watch.keeper.as_ref()?;
        (keeper.role != Role::Waiter).then_some(keeper.pid)
    }

    pub(super) fn set_timerfd(&self, when: Option<u64>) {
        // Fails only when the process has no fd left for the timerfd; then the thread's own
        // wait still ends in time, and a parked one ends its sleep by itself a little later.
        let _ = self.core.set_timer(when);
    }

    /// The keeper's `send_after` came.
    pub fn timer_fired(self: &Arc<Self>, env: Env<'_>) {
        self.beam_timer.store(0, Ordering::Release);
        match &self.driver {
            Driver::Erlang(_) => {
                self.pump(env);
            }
            Driver::Python => self.core.parking.wake(),
        }
    }

    // ---- the end ----

    /// Closes the loop, once. What is watched is forgotten, waiting processes and threads
    /// return, and the epoll fd is closed as soon as the VM's poller let go of it.
    pub fn close(&self, sender: Sender<'_>) {
        // `itself` lives to the end of this function.
        let (_itself, poll_set, keeper) = {
            let mut watch = locked(&self.watch);
            if std::mem::replace(&mut watch.closed, true) {
                return;
            }
            (
                watch.itself.take(),
                watch.poll_set.take(),
                watch.keeper.take(),
            )
        };
        registry::remove(self);
        self.signals.closed(sender);
        self.requests.end(sender);
        // A loop that runs cannot be closed in the core; its thread sees `is_closed`.
        let _ = self.core.life.close();
        self.core.parking.wake();
        if let Some(mut side) = self.erlang_side() {
            side.notify(sender, Why::Look);
            side.timers.clear();
        }
        let Some(poll_set) = poll_set else { return };
        let keeper_pid = keeper
            .as_ref()
            .filter(|keeper| keeper.role != Role::Waiter)
            .map(|keeper| keeper.pid);
        if let Some(keeper) = keeper {
            keeper.dismiss(sender, &poll_set);
        }
        match sender {
            Sender::Scheduler(env) => {
                self.release(env, &poll_set);
                if let Some(pid) = keeper_pid {
                    self.tell_closed(sender, &pid, None);
                }
            }
            Sender::Thread => self.closed_by_thread(keeper_pid, poll_set),
        }
    }

    /// A thread of ours cannot take the epoll fd out of the VM's poller: a process is told to.
    fn closed_by_thread(&self, keeper: Option<LocalPid>, poll_set: Ref<PollSet>) {
        let sender = Sender::Thread;
        if !self.ever_armed.load(Ordering::Acquire) {
            if let Some(pid) = keeper {
                self.tell_closed(sender, &pid, None);
            }
            // No message of the keeper's is acted upon any more: the loop is closed.
            return poll_set.let_go();
        }
        registry::to_be_released(self.id, poll_set.clone());
        // The router, which is there for good; a worker may be on its way out.
        match (registry::default_router(), keeper) {
            (Some(router), Some(keeper)) if router != keeper => {
                self.tell_closed(sender, &keeper, None);
                self.tell_closed(sender, &router, Some(poll_set));
            }
            (Some(pid), _) | (None, Some(pid)) => {
                self.tell_closed(sender, &pid, Some(poll_set));
            }
            // The next router finds it.
            (None, None) => {}
        }
    }

    /// The keeper drops the loop's timer; given the poll set it also takes that out of the
    /// poller.
    fn tell_closed(
        &self,
        sender: Sender<'_>,
        keeper: &LocalPid,
        poll_set: Option<Ref<PollSet>>,
    ) -> bool {
        let tag = atoms::loop_closed();
        match poll_set {
            Some(poll_set) => message::send(sender, keeper, (tag, self.id, poll_set)),
            None => message::send(sender, keeper, (tag, self.id, atoms::undefined())),
        }
    }

    /// Takes the epoll fd out of the VM's poller. Scheduler threads only.
    pub fn release(&self, env: Env<'_>, poll_set: &Ref<PollSet>) {
        registry::released(self.id);
        match self.core.raw_fd() {
            Some(fd) if self.ever_armed.load(Ordering::Acquire) => select::stop(env, fd, poll_set),
            _ => poll_set.let_go(),
        }
    }
}
