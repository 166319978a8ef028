//! The keeper of a loop while the loop sleeps: how it is chosen, how it arms the loop, and how it
//! is replaced when it dies.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustler::{Env, LocalPid};

use super::{Driver, NativeLoop, locked};
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::beam::select;
use crate::error::{Error, Result};
use crate::loops::erlang_side::Why;
use crate::loops::keeper::{Keeper, Role};
use crate::loops::{PollSet, registry};

impl NativeLoop {
    /// Makes `pid` the keeper. With `replace` the loop is taken from another keeper; otherwise only
    /// a loop is taken that has no keeper, or whose keeper is a process that waits for it. Returns
    /// `false` if there is no such process.
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
        self.ask_again(sender);
        Ok(true)
    }

    /// Requests to an earlier keeper are void: a sleeping Python thread wakes and asks the new one,
    /// a loop driven from Erlang is armed here.
    fn ask_again(self: &Arc<Self>, sender: Sender<'_>) {
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
            // Its owner is dead: waiting callers get that as the reply, before the thread that runs
            // the loop cancels tasks, which would give other replies. That thread must leave the
            // loop first.
            self.end_requests(sender);
            self.orphaned.store(true, Ordering::Release);
            // The futures of a closed loop have no waiter.
            self.posts.close();
            drop(self.posts.take());
            let is_cancelled = self
                .assignment
                .as_ref()
                .is_some_and(|assignment| assignment.cancel());
            return match &self.driver {
                Driver::Python | Driver::Runner if !is_cancelled => {
                    self.core.parking.forget_arming()
                }
                _ => self.close(sender),
            };
        }
        self.find_keeper(sender, pid);
    }

    /// The process that kept the loop while it waited in `poll_events/2` continues. Returns `true`
    /// if the VM has sent it a `{select, ...}` that it has not received yet.
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

    /// The keeper `gone` no longer keeps the loop: the node's router takes over, if there is one.
    /// Otherwise a Python thread waits by itself, and a loop driven from Erlang falls back to its
    /// timerfd and to the processes that wait for it.
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

    /// The poll set, if `pid` is its keeper.
    pub fn poll_set_kept_by(&self, pid: &LocalPid) -> Option<Ref<PollSet>> {
        let watch = locked(&self.watch);
        let kept = watch
            .keeper
            .as_ref()
            .is_some_and(|keeper| keeper.pid == *pid);
        watch.poll_set.clone().filter(|_| kept)
    }

    /// Makes the VM watch the epoll set, for the keeper. Scheduler threads only.
    pub fn arm_if_needed(&self, env: Env<'_>) {
        let watch = locked(&self.watch);
        if let (Some(poll_set), Some(keeper)) = (&watch.poll_set, &watch.keeper)
            && !watch.closed
            && self.core.parking.try_arm()
        {
            self.select(env, poll_set, &keeper.pid);
        }
    }

    /// Arms at the request of a sleeping Python thread (which has set the armed flag).
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
            // There is no set, so no thread waits on it.
            return self.core.parking.forget_arming();
        };
        self.ever_armed.store(true, Ordering::Release);
        if !select::arm(env, fd, poll_set, pid) {
            // The VM rejected it (it logs why): a sleeper must not rely on the arming.
            self.core.parking.forget_arming();
        }
    }

    /// Asks the keeper to arm, from the thread that is about to sleep. Returns `false` if there is
    /// no keeper: wait directly.
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
}
