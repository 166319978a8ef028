//! The state of a loop driven from Erlang (no Python): its pending events, its timers, and the
//! processes that wait for them in `poll_events/2`.
//!
//! An event stays until it is taken, even if the fd has been read meanwhile. When a watch is
//! removed, replaced or paused, its event is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use event_loop::{Direction, EventBuffer, Kind, Pending, Ready, TimerHeap};
use rustler::{Atom, Encoder, Env, LocalPid, Term};

use super::refs::Timer;
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;

/// A process in `poll_events/2`; `token` distinguishes its message from those of earlier calls.
struct Waiter {
    pid: LocalPid,
    token: i64,
}

/// Why a waiting process is woken.
#[derive(Clone, Copy)]
pub enum Why {
    /// Something has changed: events, the keeper, the loop's end.
    Look,
    /// `event_loop_wakeup/1`: it returns whether or not there are events.
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

/// The process that receives the events of a loop as messages, `{py_event, Loop, CallbackId,
/// Kind}`, instead of polling for them. Each watch reports once and is then paused, so no mailbox
/// is flooded.
#[derive(Clone, Copy)]
pub struct Receiver {
    pub pid: LocalPid,
    /// The process that identifies the loop.
    pub owner: LocalPid,
}

pub struct ErlangSide {
    receiver: Option<Receiver>,
    pub pending: Pending,
    /// `get_pending/1` has returned events of fds, and the loop has not been polled since. What is
    /// ready now may be the same data, which the caller is about to read: it is not collected.
    pub handling: bool,
    pub timers: TimerHeap<Arc<Timer>>,
    waiters: Vec<Waiter>,
    /// `event_loop_wakeup/1` came when no process waited: the next `poll_events/2` does not wait.
    woken: bool,
    /// Reused by every harvest.
    pub buffer: EventBuffer,
    pub ready: Vec<Ready>,
}

impl ErlangSide {
    pub fn new(receiver: Option<Receiver>) -> Self {
        ErlangSide {
            receiver,
            pending: Pending::new(),
            handling: false,
            timers: TimerHeap::new(),
            waiters: Vec::new(),
            woken: false,
            buffer: EventBuffer::new(),
            ready: Vec::new(),
        }
    }

    /// Adds the core's events and the timers that are due. Returns the number of timers.
    pub fn collect(&mut self, now: u64) -> u64 {
        for ready in self.ready.drain(..) {
            if let Some(callback) = ready.read {
                self.pending.push_ready(ready.fd, Direction::Read, callback);
            }
            if let Some(callback) = ready.write {
                self.pending
                    .push_ready(ready.fd, Direction::Write, callback);
            }
        }
        let mut fired = 0;
        while let Some(timer) = self.timers.pop_due(now) {
            // Marked as done: a later cancellation must not count it as one still in the heap.
            timer.cancelled.store(true, Ordering::Release);
            self.pending.push_timer(timer.callback);
            fired += 1;
        }
        fired
    }

    /// Sends what is pending, if this loop sends its events.
    pub fn deliver(&mut self, sender: Sender<'_>) {
        let Some(receiver) = self.receiver else {
            return;
        };
        for (callback, kind) in self.pending.take() {
            let event = (atoms::py_event(), receiver.owner, callback, kind_atom(kind));
            // The receiver has died: its loop ends, too.
            let _ = message::send(sender, &receiver.pid, event);
        }
    }

    pub fn has_receiver(&self) -> bool {
        self.receiver.is_some()
    }

    pub fn add_waiter(&mut self, env: Env<'_>, pid: LocalPid, token: i64) {
        // Removes processes that were killed while they waited.
        self.waiters.retain(|waiter| waiter.pid.is_alive(env));
        self.waiters.push(Waiter { pid, token });
    }

    pub fn remove_waiter(&mut self, token: i64) {
        self.waiters.retain(|waiter| waiter.token != token);
    }

    pub fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// `event_loop_wakeup/1`: all waiting processes return.
    pub fn wake(&mut self, sender: Sender<'_>) {
        self.woken = self.waiters.is_empty();
        self.notify(sender, Why::Woken);
    }

    /// Notifies every waiting process.
    pub fn notify(&mut self, sender: Sender<'_>, why: Why) {
        for waiter in self.waiters.drain(..) {
            let message = (atoms::py_poll(), waiter.token, why);
            // A waiting process that has died needs no message.
            let _ = message::send(sender, &waiter.pid, message);
        }
    }
}

/// The Erlang name of what happened.
pub fn kind_atom(kind: Kind) -> Atom {
    match kind {
        Kind::Read => atoms::read(),
        Kind::Write => atoms::write(),
        Kind::Timer => atoms::timer(),
    }
}
