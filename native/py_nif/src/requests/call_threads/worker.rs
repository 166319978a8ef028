//! A thread that runs calls, one after another.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use event_loop::{Spin, WaitPolicy, now_ns};
use pyo3::prelude::*;

use super::QueuedCall;
use super::outside;
use super::pool::{Pool, Seat, State};
use crate::cpython::process::{finalizing, stacks};
use crate::cpython::spinning;

/// A caller makes its next call some 10 us after a reply. With many callers the queue is rarely
/// empty, and a longer spin would only keep the CPU from their schedulers.
const SPIN: WaitPolicy = WaitPolicy {
    spin_start_ns: 10_000,
    spin_max_ns: 20_000,
    short_ns: 200_000,
    direct_ns: 0,
    near_timer_ns: 0,
    own_timer_ns: 0,
    beam_margin_ns: 0,
};
/// How long a thread that is not needed sleeps before it ends.
const IDLE: Duration = Duration::from_secs(3);

struct Worker {
    pool: &'static Pool,
    seat: Arc<Seat>,
    /// It is counted as coming, not as active.
    is_coming: bool,
    /// It has run a job since it last took one.
    ran: bool,
    /// How long it spins before it sleeps.
    habit: Spin,
}

/// Attached once for the life of the thread, so that Python keeps its thread state; it waits
/// detached.
pub fn run(pool: &'static Pool) {
    finalizing::attach(|py| {
        let seat = Arc::new(Seat::new(stacks::this_thread()));
        outside::this_is_a_call_thread(pool, seat.clone());
        pool.lock().seats.push(seat.clone());
        let mut worker = Worker {
            pool,
            seat,
            is_coming: true,
            ran: false,
            habit: Spin::new(&SPIN),
        };
        worker.work(py);
    });
}

impl Worker {
    fn work(&mut self, py: Python<'_>) {
        loop {
            while let Some(queued) = self.next() {
                queued.run(py);
            }
            if !py.detach(|| self.wait()) {
                return;
            }
        }
    }

    fn next(&mut self) -> Option<QueuedCall> {
        let pool = self.pool;
        pool.queue.note_ended(self.ran);
        let counts = !self.is_coming && self.seat.round() == pool.round();
        let queued = match counts.then(|| pool.queue.take()).flatten() {
            Some(queued) => Some(queued),
            None => {
                let mut state = pool.lock();
                self.count_in(&mut state);
                pool.take(&mut state)
            }
        };
        self.ran = queued.is_some();
        let before = (self.seat).replace(queued.as_ref().map(|queued| queued.request().clone()));
        drop(before);
        queued
    }

    /// This thread is active: it has arrived, or returned from a call, however long that took.
    fn count_in(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_coming) {
            state.coming -= 1;
        } else if self.seat.round() == self.pool.round() {
            return;
        }
        state.active += 1;
        self.seat.set_round(self.pool.round());
    }

    /// Waits for a call. Returns `false` if none came for a while: this thread must end.
    fn wait(&mut self) -> bool {
        let since = now_ns();
        let pool = self.pool;
        if self.habit.budget() > 0
            && spinning::spin(&mut self.habit, since, || !pool.queue.is_empty())
        {
            return true;
        }
        let mut state = pool.lock();
        if !pool.queue.is_empty() {
            return true;
        }
        if self.seat.round() == pool.round() {
            state.active -= 1;
        }
        let this = thread::current();
        state.idle.push(this.clone());
        state.was_free = true;
        loop {
            let stays = state.threads <= pool.keeps;
            drop(state);
            let began = Instant::now();
            match stays {
                true => thread::park(),
                false => thread::park_timeout(IDLE),
            }
            state = pool.lock();
            let Some(place) = state.idle.iter().rposition(|one| one.id() == this.id()) else {
                // The thread that removed it has counted us as coming.
                self.is_coming = true;
                self.habit.note_wait(now_ns().saturating_sub(since));
                return true;
            };
            if began.elapsed() >= IDLE && state.threads > pool.keeps {
                state.idle.remove(place);
                state.threads -= 1;
                state.seats.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
                return false;
            }
        }
    }
}
