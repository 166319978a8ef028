//! What a loop driven from Erlang (no Python) has waiting: events, timers, and the processes
//! that wait for them in `poll_events/2`.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use event_loop::{EventBuffer, Kind, Pending, Ready, TimerHeap};
use rustler::LocalPid;

use super::refs::Timer;
use crate::atoms;
use crate::beam::message::{self, Sender};

/// A process in `poll_events/2`; `token` tells its message from those of earlier calls.
struct Waiter {
    pid: LocalPid,
    token: i64,
}

pub struct ErlangSide {
    pub pending: Pending,
    pub timers: TimerHeap<Arc<Timer>>,
    waiters: Vec<Waiter>,
    /// `event_loop_wakeup/1` came when nobody waited: the next `poll_events/2` does not wait.
    woken: bool,
    /// Reused by every harvest.
    pub buffer: EventBuffer,
    pub ready: Vec<Ready>,
}

impl ErlangSide {
    pub fn new() -> Self {
        ErlangSide {
            pending: Pending::new(),
            timers: TimerHeap::new(),
            waiters: Vec::new(),
            woken: false,
            buffer: EventBuffer::new(),
            ready: Vec::new(),
        }
    }

    /// Moves what the core harvested and what is due into the queue.
    pub fn collect(&mut self, now: u64) {
        for ready in self.ready.drain(..) {
            if let Some(callback) = ready.read {
                self.pending.push(callback, Kind::Read);
            }
            if let Some(callback) = ready.write {
                self.pending.push(callback, Kind::Write);
            }
        }
        while let Some(timer) = self.timers.pop_due(now) {
            // Marked as done: cancelling it later must not count it as one still in the heap.
            timer.cancelled.store(true, Ordering::Release);
            self.pending.push(timer.callback, Kind::Timer);
        }
    }

    pub fn add_waiter(&mut self, pid: LocalPid, token: i64) {
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
        self.notify(sender);
    }

    /// Tells every waiting process that there is something to look at.
    pub fn notify(&mut self, sender: Sender<'_>) {
        for waiter in self.waiters.drain(..) {
            // A waiter that died needs no answer.
            let _ = message::send(sender, &waiter.pid, (atoms::py_poll(), waiter.token));
        }
    }
}
