//! A loop driven from Erlang: any calling process collects events here and takes them with
//! `get_pending/1`; `poll_events/2` waits for them.
//!
//! Watches change under the lock of [`ErlangSide`], too: after a watch has ended, none of its
//! events is pending, and none is being collected.
//!
//! No wake-up is lost: checking for events and joining the waiting processes is one step under the
//! lock of [`ErlangSide`], and code that finds events takes the same lock to notify the waiting
//! processes.

use std::os::fd::RawFd;
use std::sync::Arc;

use event_loop::{Direction, Kind, Mode, WatchId, now_ns};
use rustler::Env;

use super::PollSet;
use super::erlang_side::{ErlangSide, Why};
use super::keeper::Role;
use super::native_loop::{Driver, NativeLoop};
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::Result;

/// How a process in `poll_events/2` continues.
pub enum PollWait {
    /// There are events, or a wake-up: it returns.
    Ready(usize),
    /// It waits for `{py_poll, Token, Why}`.
    ForMessage,
    /// It waits for that and for the loop's `{select, ...}`: it is the loop's keeper.
    AsKeeper(Ref<PollSet>),
}

impl NativeLoop {
    /// Collects what is ready and due, notifies waiting processes, and plans the next timer.
    /// Returns the number of pending events.
    pub fn pump(&self, env: Env<'_>) -> usize {
        self.erlang_side()
            .map_or(0, |mut side| self.pump_into(env, &mut side))
    }

    /// As [`pump`](Self::pump), for a process that asks for events.
    pub fn pump_for_caller(&self, env: Env<'_>) -> usize {
        self.erlang_side()
            .map_or(0, |mut side| self.pump_into_for_caller(env, &mut side))
    }

    fn pump_into_for_caller(&self, env: Env<'_>, side: &mut ErlangSide) -> usize {
        side.handling = false;
        self.pump_into(env, side)
    }

    fn pump_into(&self, env: Env<'_>, side: &mut ErlangSide) -> usize {
        if !side.handling && self.core.poll_now(&mut side.buffer).is_ok() {
            self.core.resolve_into(&side.buffer, &mut side.ready);
        }
        let fired = side.collect(now_ns());
        self.core.counters.timers_fired.add_owned(fired);
        let sender = Sender::Scheduler(env);
        self.plan_wake(sender, side.timers.next_deadline());
        side.deliver(sender);
        let count = side.pending.len();
        if count > 0 {
            side.notify(sender, Why::Look);
        }
        count
    }

    /// Whether events are sent to a process, so that they cannot be polled.
    pub fn sends_events(&self) -> bool {
        self.erlang_side().is_some_and(|side| side.has_receiver())
    }

    /// How often a watch reports: a receiving process gets one event and asks for the next.
    pub fn watch_mode(&self) -> Mode {
        match self.sends_events() {
            true => Mode::ONESHOT,
            false => Mode::LEVEL,
        }
    }

    /// `add_reader/3`, `add_writer/3`. An event of the watch that is replaced is dropped.
    pub fn watch_fd(&self, fd: RawFd, direction: Direction, callback: u64) -> Result<WatchId> {
        let mode = self.watch_mode();
        let mut side = self.erlang_side();
        let watch = self.core.watch(fd, direction, callback, mode)?;
        if let Some(side) = &mut side {
            side.pending.forget(fd, direction);
        }
        Ok(watch)
    }

    /// Ends a watch and drops its event. Returns `false` if it had ended before.
    pub fn unwatch_fd(&self, watch: WatchId, direction: Direction) -> bool {
        let mut side = self.erlang_side();
        let ended = self.core.unwatch(watch, direction);
        if let Some(side) = side.as_mut().filter(|_| ended) {
            side.pending.forget(watch.fd, direction);
        }
        ended
    }

    /// Ends both watches of an fd and drops their events; for use before it is closed.
    pub fn forget_fd(&self, fd: RawFd) {
        let mut side = self.erlang_side();
        self.core.forget_fd(fd);
        if let Some(side) = &mut side {
            side.pending.forget(fd, Direction::Read);
            side.pending.forget(fd, Direction::Write);
        }
    }

    /// `stop_reader/1`, `stop_writer/1`. An fd that is still ready when it is started again is
    /// reported then.
    pub fn pause_fd(&self, watch: WatchId, direction: Direction) -> Result<()> {
        let mut side = self.erlang_side();
        self.core.pause(watch, direction)?;
        if let Some(side) = &mut side {
            side.pending.forget(watch.fd, direction);
        }
        Ok(())
    }

    /// `get_pending/1`.
    pub fn take_pending(&self, env: Env<'_>) -> Vec<(u64, Kind)> {
        let Some(mut side) = self.erlang_side() else {
            return Vec::new();
        };
        self.pump_into_for_caller(env, &mut side);
        let taken = side.pending.take();
        side.handling = taken.iter().any(|(_, kind)| *kind != Kind::Timer);
        let handling = side.handling;
        drop(side);
        if !handling {
            self.arm_if_needed(env);
        }
        taken
    }

    /// The keeper received `{select, ...}`.
    pub fn poll_set_ready(self: &Arc<Self>, env: Env<'_>) {
        self.core.parking.disarmed();
        if let Driver::Erlang(_) = &self.driver {
            // While something is pending or being handled, the set stays unarmed until the loop is
            // polled again: a level-triggered fd that is not read would be reported forever.
            let idle = self
                .erlang_side()
                .is_some_and(|mut side| self.pump_into(env, &mut side) == 0 && !side.handling);
            if idle {
                self.arm_if_needed(env);
            }
        }
    }

    /// The calling process is about to wait for events.
    pub fn begin_waiting(self: &Arc<Self>, env: Env<'_>, token: i64) -> Result<PollWait> {
        {
            let Some(mut side) = self.erlang_side() else {
                return Ok(PollWait::Ready(0));
            };
            // Under the lock: closing the loop takes it afterwards, to notify waiting processes.
            self.check_open()?;
            let count = self.pump_into_for_caller(env, &mut side);
            if side.take_woken() || count > 0 {
                return Ok(PollWait::Ready(count));
            }
            side.add_waiter(env, env.pid(), token);
        }
        let caller = env.pid();
        self.adopt(Sender::Scheduler(env), caller, Role::Waiter, false)?;
        self.arm_if_needed(env);
        Ok(match self.poll_set_kept_by(&caller) {
            Some(poll_set) => {
                // While it waits here it receives no other messages, so no `send_after` either.
                if let Some(mut side) = self.erlang_side() {
                    self.set_timerfd(side.timers.next_deadline());
                }
                PollWait::AsKeeper(poll_set)
            }
            None => PollWait::ForMessage,
        })
    }

    /// The calling process no longer waits. Returns `true` if the VM has sent it a `{select, ...}`
    /// that it has not received yet.
    pub fn end_waiting(self: &Arc<Self>, env: Env<'_>, token: i64) -> bool {
        if let Some(mut side) = self.erlang_side() {
            side.remove_waiter(token);
        }
        self.waiter_leaves(env)
    }
}
