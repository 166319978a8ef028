//! What a loop driven from Erlang (no Python) has waiting: events, timers, and the processes
//! that wait for them in `poll_events/2`.
//!
//! A timer that is due stays so until it is taken. Readiness of an fd is not kept: it is what
//! the kernel said last, and asked for anew each time, so that an fd that was read, removed or
//! closed meanwhile is not reported.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use event_loop::{EventBuffer, Kind, Pending, Ready, TimerHeap};
use rustler::{Atom, Encoder, Env, LocalPid, Term};

use super::refs::Timer;
use crate::atoms;
use crate::beam::message::{self, Sender};

/// A process in `poll_events/2`; `token` tells its message from those of earlier calls.
struct Waiter {
    pid: LocalPid,
    token: i64,
}

/// Why a waiting process is told to go on.
#[derive(Clone, Copy)]
pub enum Why {
    /// Something has changed: events, the keeper, the loop's end.
    Look,
    /// `event_loop_wakeup/1`: it returns, whatever there is.
    Woken,
}

impl Encoder for Why {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        match self {
            Why::Look => atoms::look().encode(env),
            Why::Woken => atoms::woken().encode(env),
        }
    }
}

/// Who gets the events of a loop as messages, `{py_event, Loop, CallbackId, Kind}`, instead of
/// asking for them. Each watch is told once and then paused: nobody's mailbox is flooded.
#[derive(Clone, Copy)]
pub struct Receiver {
    pub pid: LocalPid,
    /// The process that stands for the loop.
    pub owner: LocalPid,
}

pub struct ErlangSide {
    receiver: Option<Receiver>,
    /// Of fds, as of the last look.
    ready_fds: Pending,
    /// Callbacks of timers that are due, in order.
    due: Vec<u64>,
    pub timers: TimerHeap<Arc<Timer>>,
    waiters: Vec<Waiter>,
    /// `event_loop_wakeup/1` came when nobody waited: the next `poll_events/2` does not wait.
    woken: bool,
    /// Reused by every harvest.
    pub buffer: EventBuffer,
    pub ready: Vec<Ready>,
}

impl ErlangSide {
    pub fn new(receiver: Option<Receiver>) -> Self {
        ErlangSide {
            receiver,
            ready_fds: Pending::new(),
            due: Vec::new(),
            timers: TimerHeap::new(),
            waiters: Vec::new(),
            woken: false,
            buffer: EventBuffer::new(),
            ready: Vec::new(),
        }
    }

    /// Notes what the core harvested and what is due. Answers the number of timers among it.
    pub fn collect(&mut self, now: u64) -> u64 {
        let _ = self.ready_fds.take();
        for ready in self.ready.drain(..) {
            if let Some(callback) = ready.read {
                self.ready_fds.push(callback, Kind::Read);
            }
            if let Some(callback) = ready.write {
                self.ready_fds.push(callback, Kind::Write);
            }
        }
        let before = self.due.len();
        while let Some(timer) = self.timers.pop_due(now) {
            // Marked as done: cancelling it later must not count it as one still in the heap.
            timer.cancelled.store(true, Ordering::Release);
            self.due.push(timer.callback);
        }
        (self.due.len() - before) as u64
    }

    /// Sends what is pending if it is to be sent.
    pub fn deliver(&mut self, sender: Sender<'_>) {
        let Some(receiver) = self.receiver else {
            return;
        };
        for (callback, kind) in self.take_pending() {
            let event = (atoms::py_event(), receiver.owner, callback, kind_atom(kind));
            // A receiver that died: its loop ends, too.
            let _ = message::send(sender, &receiver.pid, event);
        }
    }

    pub fn has_receiver(&self) -> bool {
        self.receiver.is_some()
    }

    pub fn pending_len(&self) -> usize {
        self.ready_fds.len() + self.due.len()
    }

    pub fn take_pending(&mut self) -> Vec<(u64, Kind)> {
        let mut taken = self.ready_fds.take();
        taken.extend(self.due.drain(..).map(|callback| (callback, Kind::Timer)));
        taken
    }

    pub fn add_waiter(&mut self, env: Env<'_>, pid: LocalPid, token: i64) {
        // Those killed while they waited for something that never came.
        self.waiters.retain(|waiter| waiter.pid.is_alive(env));
        self.waiters.push(Waiter { pid, token });
    }

    pub fn remove_waiter(&mut self, token: i64) {
        self.waiters.retain(|waiter| waiter.token != token);
    }

    pub fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// `event_loop_wakeup/1`: whoever waits returns.
    pub fn wake(&mut self, sender: Sender<'_>) {
        self.woken = self.waiters.is_empty();
        self.notify(sender, Why::Woken);
    }

    /// Tells every waiting process.
    pub fn notify(&mut self, sender: Sender<'_>, why: Why) {
        for waiter in self.waiters.drain(..) {
            let message = (atoms::py_poll(), waiter.token, why);
            // A waiter that died needs no answer.
            let _ = message::send(sender, &waiter.pid, message);
        }
    }
}

/// How Erlang calls what happened.
pub fn kind_atom(kind: Kind) -> Atom {
    match kind {
        Kind::Read => atoms::read(),
        Kind::Write => atoms::write(),
        Kind::Timer => atoms::timer(),
    }
}
