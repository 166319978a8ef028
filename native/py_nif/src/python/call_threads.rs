//! The threads that plain functions run on: never a scheduler of the VM, never a loop.
//!
//! One thread does all calls one after another as long as they are short: with one GIL more
//! threads would only hand it to and fro. A *standby* thread watches. When calls wait and none
//! has ended for a while, the functions that run are blocked or compute: the standby becomes a
//! worker (or wakes one that is idle), and a new standby is started, up to the limit. (Unless the
//! worker only waits for a CPU: another would, too.) Workers beyond the first end when they had nothing
//! to do for some seconds. A call that finds a worker that is not blocked wakes no other.
//!
//! A worker that runs out of calls looks for more for a while before it sleeps, if that has paid
//! lately (`call_threads/spin.rs`): to be woken takes longer than most calls.
//!
//! A thread that waits for Erlang (`erlang.call`) is *outside* (`call_threads/outside.rs`): it does
//! not count, because what it waits for may need a thread.

mod outside;
mod queue;
mod sleepers;
mod spin;
mod standby;
mod worker;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use event_loop::sys::thread::Thread;
use pyo3::prelude::*;

pub use outside::outside;
use queue::Queue;
use sleepers::{Bell, Sleepers};
use worker::worker;

use super::calls;
use super::plain_streams::{self, Slice};
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::loops::{NativeLoop, Refused};
use crate::tasks::{Request, Task};

pub enum Job {
    Call {
        request: Request,
        /// The loop that was asked; what has to be awaited goes back there.
        home: Option<Arc<NativeLoop>>,
    },
    /// A generator that goes on.
    Stream(Slice),
}

impl Job {
    pub fn task(&self) -> &Ref<Task> {
        match self {
            Job::Call { request, .. } => &request.task,
            Job::Stream(slice) => &slice.task,
        }
    }

    fn run(self, py: Python<'_>) {
        match self {
            Job::Call { request, home } => {
                let home = home.as_ref();
                caught(&request.task, home, || calls::run(py, &request, home));
            }
            Job::Stream(slice) => {
                let (task, home) = (slice.task.clone(), slice.home.clone());
                caught(&task, home.as_ref(), || slice.run(py));
            }
        }
    }
}

/// A panic in our own code must not take the thread with it, nor leave the task to its loop.
fn caught(task: &Ref<Task>, home: Option<&Arc<NativeLoop>>, body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        task.fail(Sender::Thread, atoms::panicked());
        calls::settle(task, home);
    }
}

/// Guarded by one lock, which is held for a few instructions at a time.
struct Pool {
    queue: Queue,
    /// Threads that run calls or wait for some, the standby not among them.
    workers: usize,
    /// Of these, waiting.
    idle: usize,
    /// Of these, asleep, or about to hear that they are not any more.
    sleepers: Sleepers,
    /// The worker that was last to take calls.
    latest: Option<Thread>,
    /// Workers whose call was running when none had ended for a while, and has not ended since. A
    /// worker knows by [`AGE`] whether it is one. Should the count be wrong, it is right again when
    /// next nobody gets on, or all are idle.
    blocked: usize,
    /// One of them spins, and was not told of a call yet: it needs no wake-up.
    spinning: bool,
    /// Whether there is a standby thread.
    standby: bool,
    /// Whether the standby looks at its watch: it needs no wake-up then.
    watching: bool,
    /// The standby is to become a worker at once.
    needed: bool,
    /// Threads that wait for Erlang.
    outside: usize,
    /// Whether an idle worker was told of a call and is not there yet: it needs no second word.
    told: bool,
    max_threads: usize,
    max_queue: usize,
    max_outside: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    queue: Queue::new(),
    workers: 0,
    idle: 0,
    sleepers: Sleepers::new(),
    latest: None,
    blocked: 0,
    spinning: false,
    standby: false,
    watching: false,
    needed: false,
    outside: 0,
    told: false,
    max_threads: 64,
    max_queue: 100_000,
    max_outside: 1000,
});
/// Calls that have ended so far. Relaxed: a count that orders nothing.
static ENDED: AtomicU64 = AtomicU64::new(0);
/// How often nobody got on. Written under the pool's lock; a worker that misses a change sees it
/// after its next call. Relaxed.
static AGE: AtomicU64 = AtomicU64::new(0);
static WATCH: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    // Counters and a queue: whole also after a panic.
    POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub struct Info {
    pub workers: usize,
    pub idle: usize,
    pub queued: usize,
    pub ended: u64,
}

pub fn info() -> Info {
    let pool = pool();
    Info {
        workers: pool.workers,
        idle: pool.idle,
        queued: pool.queue.len(),
        ended: ENDED.load(Ordering::Relaxed),
    }
}

/// Threads and waiting calls at most. More threads than that end as they become idle.
pub fn limit(max_threads: usize, max_queue: usize, max_outside: usize) {
    let mut pool = pool();
    pool.max_threads = max_threads.max(1);
    pool.max_queue = max_queue;
    pool.max_outside = max_outside;
}

/// Queues a call. Any thread; never waits for Python.
pub fn post(job: Job) -> Result<(), (Refused, Job)> {
    let mut pool = pool();
    let open_streams = match job.task().is_stream {
        true => plain_streams::count(),
        false => 0,
    };
    if pool.queue.len().max(open_streams) >= pool.max_queue {
        return Err((Refused::Overload, job));
    }
    if !pool.ensure_worker() {
        return Err((Refused::Overload, job));
    }
    let sleeper = pool.push(job);
    drop(pool);
    sleepers::wake(sleeper);
    Ok(())
}

/// Queues what was taken in before and now goes on: it is never refused.
pub fn post_admitted(job: Job) {
    let mut pool = pool();
    // Without memory for a thread it waits for the next call, which starts one or fails.
    pool.ensure_worker();
    let sleeper = pool.push(job);
    drop(pool);
    sleepers::wake(sleeper);
}

/// Whether calls wait for this thread.
pub fn are_waiting() -> bool {
    !pool().queue.is_empty()
}

impl Pool {
    /// One worker takes what there is. If it does not get on, the standby sees that. Answers who is
    /// to be woken.
    #[must_use]
    fn push(&mut self, job: Job) -> Option<Bell> {
        self.queue.push(job);
        // Without a standby nobody would notice that it does not get on.
        let taken_care_of = self.standby && (self.told || self.gets_on());
        if self.idle > 0 && !taken_care_of {
            return self.tell_idle();
        }
        self.have_watched();
        None
    }

    /// Whether a worker runs calls that, as far as is known, end soon.
    fn gets_on(&self) -> bool {
        self.workers > self.idle + self.blocked
    }

    /// Calls wait, and none has ended for a while.
    fn nobody_gets_on(&mut self) {
        AGE.fetch_add(1, Ordering::Relaxed);
        self.blocked = self.workers.saturating_sub(self.idle);
    }

    /// A worker has ended a call, which it began at this age, and begins the next.
    fn gone_on(&mut self, began: &mut u64) {
        let age = AGE.load(Ordering::Relaxed);
        if *began < age {
            self.blocked = self.blocked.saturating_sub(1);
        }
        *began = age;
    }

    /// Has an idle worker take what there is; who is to be woken for that, if none spins.
    #[must_use]
    fn tell_idle(&mut self) -> Option<Bell> {
        self.told = true;
        match std::mem::take(&mut self.spinning) {
            true => {
                spin::tell();
                None
            }
            false => self.sleepers.take_last(),
        }
    }

    /// Sees to it that somebody takes calls. `false`: there is no memory for a thread.
    fn ensure_worker(&mut self) -> bool {
        if self.workers > 0 {
            return true;
        }
        if self.standby {
            self.needed = true;
            WATCH.notify_one();
            return true;
        }
        let started = start(worker);
        self.workers = usize::from(started);
        started
    }

    /// Calls wait: the standby looks at its watch.
    fn have_watched(&mut self) {
        if self.standby && !self.watching {
            self.watching = true;
            WATCH.notify_one();
        }
    }
}

fn start(body: fn()) -> bool {
    thread::Builder::new()
        .name("python-call".to_owned())
        // As Python's main thread.
        .stack_size(8 << 20)
        .spawn(body)
        .is_ok()
}
