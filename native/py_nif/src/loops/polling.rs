//! A loop driven from Erlang: events are collected here, by whichever process comes along, and
//! taken with `get_pending/1`; `poll_events/2` waits for them.
//!
//! No wake-up is lost, because looking for events and joining those who wait for them is one
//! step under the lock of [`ErlangSide`], and whoever finds events takes the same lock to tell
//! those who wait.

use std::sync::Arc;

use event_loop::{now_ns, Kind, Mode};
use rustler::Env;

use super::erlang_side::{ErlangSide, Why};
use super::keeper::Role;
use super::native_loop::{Driver, NativeLoop};
use super::PollSet;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::Result;

/// How a process in `poll_events/2` goes on.
pub enum Waiting {
    /// There are events, or a wake-up: it returns.
    Not(usize),
    /// It waits for `{py_poll, Token, Why}`.
    Told,
    /// It waits for that and for the loop's `{select, ...}`: it is the loop's keeper.
    Keeping(Ref<PollSet>),
}

impl NativeLoop {
    /// Collects what is ready and due, tells whoever waits, and plans the next timer. Answers
    /// the number of pending events.
    pub fn pump(&self, env: Env<'_>) -> usize {
        self.erlang_side()
            .map_or(0, |mut side| self.pump_into(env, &mut side))
    }

    fn pump_into(&self, env: Env<'_>, side: &mut ErlangSide) -> usize {
        if self.core.poll_now(&mut side.buffer).is_ok() {
            self.core.resolve_into(&side.buffer, &mut side.ready);
        }
        let fired = side.collect(now_ns());
        self.core.counters.timers_fired.add_owned(fired);
        let sender = Sender::Scheduler(env);
        self.plan_wake(sender, side.timers.next_deadline());
        side.deliver(sender);
        let count = side.pending_len();
        if count > 0 {
            side.notify(sender, Why::Look);
        }
        count
    }

    /// Whether a process gets the events, so that nobody can ask for them.
    pub fn sends_events(&self) -> bool {
        self.erlang_side().is_some_and(|side| side.has_receiver())
    }

    /// How often a watch is told: a process hears of it once and asks for the next.
    pub fn watch_mode(&self) -> Mode {
        match self.sends_events() {
            true => Mode::ONESHOT,
            false => Mode::LEVEL,
        }
    }

    /// `get_pending/1`.
    pub fn take_pending(&self, env: Env<'_>) -> Vec<(u64, Kind)> {
        let taken = self
            .erlang_side()
            .map(|mut side| {
                self.pump_into(env, &mut side);
                side.take_pending()
            })
            .unwrap_or_default();
        self.arm_if_needed(env);
        taken
    }

    /// `{select, ...}` came to the keeper.
    pub fn poll_set_ready(self: &Arc<Self>, env: Env<'_>) {
        self.core.parking.disarmed();
        if let Driver::Erlang(_) = &self.driver {
            // With something pending the set stays unarmed until it is taken: a level-triggered
            // fd nobody reads would otherwise be announced for ever.
            if self.pump(env) == 0 {
                self.arm_if_needed(env);
            }
        }
    }

    /// The calling process wants to wait for events.
    pub fn begin_waiting(self: &Arc<Self>, env: Env<'_>, token: i64) -> Result<Waiting> {
        {
            let Some(mut side) = self.erlang_side() else {
                return Ok(Waiting::Not(0));
            };
            // Under the lock: whoever closes the loop takes it afterwards, to tell those who wait.
            self.check_open()?;
            let count = self.pump_into(env, &mut side);
            if side.take_woken() || count > 0 {
                return Ok(Waiting::Not(count));
            }
            side.add_waiter(env, env.pid(), token);
        }
        let caller = env.pid();
        self.adopt(Sender::Scheduler(env), caller, Role::Waiter, false)?;
        self.arm_if_needed(env);
        Ok(match self.poll_set_kept_by(&caller) {
            Some(poll_set) => {
                // While it waits here it takes no other messages, so no `send_after` either.
                if let Some(mut side) = self.erlang_side() {
                    self.set_timerfd(side.timers.next_deadline());
                }
                Waiting::Keeping(poll_set)
            }
            None => Waiting::Told,
        })
    }

    /// The calling process waits no longer. `true`: the VM has sent it a `{select, ...}` that it
    /// has not taken yet.
    pub fn end_waiting(self: &Arc<Self>, env: Env<'_>, token: i64) -> bool {
        if let Some(mut side) = self.erlang_side() {
            side.remove_waiter(token);
        }
        self.waiter_leaves(env)
    }
}
