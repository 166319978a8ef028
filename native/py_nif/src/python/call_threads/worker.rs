//! A thread that runs calls, one after another.

use std::sync::atomic::Ordering;
use std::time::Duration;

use event_loop::sys::thread::Thread;
use event_loop::{now_ns, Spin, WaitPolicy};
use pyo3::prelude::*;

use super::sleepers::Bell;
use super::{outside, pool, queue, spin, standby, Job, AGE, ENDED};

/// One caller after another needs some 10 us for its next call. With many of them there are calls
/// anyway, and a longer spin would only keep their schedulers from a CPU.
const SPIN: WaitPolicy = WaitPolicy {
    spin_start_ns: 10_000,
    spin_max_ns: 20_000,
    short_ns: 200_000,
    direct_ns: 0,
    near_timer_ns: 0,
    own_timer_ns: 0,
    beam_margin_ns: 0,
};
/// So long a thread beyond the first stays without work.
const IDLE: Duration = Duration::from_secs(3);

struct Worker {
    thread: Thread,
    bell: Bell,
    /// How it looks for the next call before it sleeps.
    habit: Spin,
    /// The age in which its call began.
    began: u64,
}

/// Attached once for the life of the thread, so that Python keeps its state of the thread;
/// waiting is done detached.
pub(super) fn worker() {
    outside::this_is_a_call_thread();
    standby::ensure();
    let worker = Worker {
        thread: Thread::this(),
        bell: Bell::default(),
        habit: Spin::new(&SPIN),
        began: AGE.load(Ordering::Relaxed),
    };
    Python::attach(|py| py.detach(|| worker.work()));
}

impl Worker {
    fn work(mut self) {
        while self.wait() {
            Python::attach(|py| {
                while let Some(job) = self.next() {
                    job.run(py);
                    ENDED.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }

    fn next(&mut self) -> Option<Job> {
        let taken = queue::take();
        if taken.is_some() && AGE.load(Ordering::Relaxed) == self.began {
            return taken;
        }
        let mut pool = pool();
        pool.gone_on(&mut self.began);
        let job = taken.or_else(|| pool.queue.advance());
        if !pool.queue.is_empty() {
            pool.have_watched();
        }
        job
    }

    /// `false`: this thread has been idle long enough, and is not the last one.
    fn wait(&mut self) -> bool {
        let since = now_ns();
        let mut pool = pool();
        pool.gone_on(&mut self.began);
        pool.idle += 1;
        if pool.idle == pool.workers {
            pool.blocked = 0;
        }
        if pool.queue.is_empty() && !pool.spinning && self.habit.budget() > 0 {
            pool.spinning = true;
            spin::begin();
            drop(pool);
            let told = spin::run(&mut self.habit, since);
            pool = super::pool();
            // Whoever told us has cleared it, and another may spin by now. Should both be wrong, a
            // worker that spins looks at the queue before it sleeps, as we do.
            pool.spinning &= told;
        }
        loop {
            pool.told = false;
            if !pool.queue.is_empty() {
                pool.idle -= 1;
                pool.latest = Some(self.thread);
                self.habit.note_wait(now_ns().saturating_sub(since));
                self.began = AGE.load(Ordering::Relaxed);
                return true;
            }
            pool.sleepers.add(&self.bell);
            let waited;
            (pool, waited) = self
                .bell
                .wait_timeout(pool, IDLE)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            let unasked = pool.sleepers.remove(&self.bell);
            // Calls that are there are somebody else's, who gets on.
            let unneeded = unasked && (pool.queue.is_empty() || pool.gets_on());
            if waited.timed_out() && unneeded && pool.workers > 1 {
                pool.idle -= 1;
                pool.workers -= 1;
                return false;
            }
        }
    }
}
