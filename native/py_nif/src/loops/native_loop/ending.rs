//! The end of a loop. The VM's poller may still watch its epoll fd, and must release it first.

use std::sync::atomic::Ordering;

use rustler::{Env, LocalPid};

use super::{NativeLoop, locked};
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::beam::select;
use crate::loops::erlang_side::Why;
use crate::loops::keeper::Role;
use crate::loops::{PollSet, registry};

impl NativeLoop {
    /// Closes the loop, once. All watches end, waiting processes and threads return, and the epoll
    /// fd is closed as soon as the VM's poller has released it.
    pub fn close(&self, sender: Sender<'_>) {
        // `itself` lives until the end of this function.
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
        self.end_requests(sender);
        // A running loop cannot be closed in the core; its thread sees `is_closed`.
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
                    self.send_closed(sender, &pid, None);
                }
            }
            Sender::Thread => self.closed_by_thread(keeper_pid, poll_set),
        }
    }

    /// Our own thread cannot remove the epoll fd from the VM's poller: a process is asked to.
    fn closed_by_thread(&self, keeper: Option<LocalPid>, poll_set: Ref<PollSet>) {
        let sender = Sender::Thread;
        if !self.ever_armed.load(Ordering::Acquire) {
            if let Some(pid) = keeper {
                self.send_closed(sender, &pid, None);
            }
            // The keeper's messages have no effect any more: the loop is closed.
            return poll_set.release_loop();
        }
        registry::to_be_released(self.id, poll_set.clone());
        // Prefer the router, which is permanent; a worker may be about to end.
        match (registry::default_router(), keeper) {
            (Some(router), Some(keeper)) if router != keeper => {
                self.send_closed(sender, &keeper, None);
                self.send_closed(sender, &router, Some(poll_set));
            }
            (Some(pid), _) | (None, Some(pid)) => {
                self.send_closed(sender, &pid, Some(poll_set));
            }
            // The next router finds it in the registry.
            (None, None) => {}
        }
    }

    /// Makes the keeper cancel the loop's timer; given the poll set, it also removes that from the
    /// poller.
    fn send_closed(
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

    /// Removes the epoll fd from the VM's poller. Scheduler threads only.
    pub fn release(&self, env: Env<'_>, poll_set: &Ref<PollSet>) {
        registry::released(self.id);
        match self.core.raw_fd() {
            Some(fd) if self.ever_armed.load(Ordering::Acquire) => select::stop(env, fd, poll_set),
            _ => poll_set.release_loop(),
        }
    }
}
