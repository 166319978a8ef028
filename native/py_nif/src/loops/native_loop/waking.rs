//! Deadlines: a loop whose thread sleeps is woken when its next deadline comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use event_loop::{TimerPlan, now_ns, plan_timer};
use rustler::{Env, LocalPid};

use super::{Driver, NativeLoop, locked};
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::loops::keeper::Role;

/// A week.
const MAX_BEAM_DELAY_MS: u64 = 7 * 24 * 3600 * 1000;

/// How late a thread wakes by itself if it is not woken at its deadline.
const LATE_NS: u64 = 1_000_000;

impl NativeLoop {
    /// For a thread that is about to sleep until `deadline`: how long it may sleep at most.
    pub fn plan_sleep(&self, deadline: Option<u64>) -> Option<u64> {
        let left = deadline.map(|deadline| deadline.saturating_sub(now_ns()));
        if left.is_some_and(|left| left < self.policy.own_timer_ns) {
            self.set_timerfd(None);
            return left;
        }
        self.plan_wake(Sender::Thread, deadline);
        // Other mechanisms wake it at the deadline. This limit is for cases in which they cannot:
        // there was no fd for the timerfd, or the VM is too busy to be in time.
        left.map(|left| left.saturating_add(LATE_NS))
    }

    /// Arranges that the loop is woken at `deadline`, though its thread sleeps: by the timerfd in
    /// the epoll set when it is near, else by the keeper's `send_after`.
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
            // An earlier timer is set, and plans again when it fires.
            return self.set_timerfd(None);
        }
        self.beam_timer.store(deadline, Ordering::Release);
        // The VM rejects times beyond its own end. A timer that fires too early plans again.
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

    /// The process that can hold a `send_after`: not one that waits in `poll_events/2`.
    fn timer_keeper(&self) -> Option<LocalPid> {
        let watch = locked(&self.watch);
        let keeper = watch.keeper.as_ref()?;
        (keeper.role != Role::Waiter).then_some(keeper.pid)
    }

    pub(in crate::loops) fn set_timerfd(&self, when: Option<u64>) {
        // Fails only when the process has no fd left for the timerfd; then the thread's own wait
        // still ends in time, and a parked thread ends its sleep by itself a little later.
        let _ = self.core.set_timer(when);
    }

    /// The keeper's `send_after` fired.
    pub fn timer_fired(self: &Arc<Self>, env: Env<'_>) {
        self.beam_timer.store(0, Ordering::Release);
        match &self.driver {
            Driver::Erlang(_) => {
                self.pump(env);
            }
            Driver::Python | Driver::Runner => self.core.parking.wake(),
        }
    }
}
