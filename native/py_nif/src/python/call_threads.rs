//! The threads that plain functions run on: never a scheduler of the VM, never a loop.
//!
//! One thread does all calls one after another as long as they are short: with one GIL more
//! threads would only hand it to and fro. A *standby* thread watches. When calls wait and none
//! has ended for a while, the functions that run are blocked or compute: the standby becomes a
//! worker (or wakes one that is idle), and a new standby is started, up to the limit. Workers beyond
//! the first end when they had nothing to do for some seconds. A call that finds a worker that is
//! not blocked wakes no other.
//!
//! A worker that runs out of calls looks for more for a while before it sleeps, if that has paid
//! lately (`call_threads/spin.rs`): to be woken takes longer than most calls.
//!
//! A thread that waits for Erlang (`erlang.call`) is *outside* (`call_threads/outside.rs`): it does
//! not count, because what it waits for may need a thread.

mod outside;
mod queue;
mod spin;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use event_loop::{now_ns, Spin, WaitPolicy};
use pyo3::prelude::*;

pub use outside::outside;
use queue::Queue;

use super::calls;
use super::plain_streams::{self, Slice};
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::loops::{NativeLoop, Refused};
use crate::tasks::{Request, Task};

/// So long may calls wait for a call that does not end before another thread takes them.
const PATIENCE: Duration = Duration::from_millis(2);
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
                caught(&request.task, || calls::run(py, &request, home.as_ref()));
            }
            Job::Stream(slice) => caught(&slice.task.clone(), || slice.run(py)),
        }
    }
}

/// A panic in our own code must not take the thread with it.
fn caught(task: &Ref<Task>, body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        task.fail(Sender::Thread, atoms::panicked());
    }
}

/// Guarded by one lock, which is held for a few instructions at a time.
struct Pool {
    queue: Queue,
    /// Threads that run calls or wait for some, the standby not among them.
    workers: usize,
    /// Of these, waiting.
    idle: usize,
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
static WORK: Condvar = Condvar::new();
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
    pool.push(job);
    Ok(())
}

/// Queues what was taken in before and now goes on: it is never refused.
pub fn post_admitted(job: Job) {
    let mut pool = pool();
    // Without memory for a thread it waits for the next call, which starts one or fails.
    pool.ensure_worker();
    pool.push(job);
}

/// Whether calls wait for this thread.
pub fn are_waiting() -> bool {
    !pool().queue.is_empty()
}

impl Pool {
    /// One worker takes what there is. If it does not get on, the standby sees that.
    fn push(&mut self, job: Job) {
        self.queue.push(job);
        // Without a standby nobody would notice that it does not get on.
        let taken_care_of = self.standby && (self.told || self.gets_on());
        if self.idle > 0 && !taken_care_of {
            self.tell_idle();
        } else {
            self.have_watched();
        }
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

    fn tell_idle(&mut self) {
        self.told = true;
        match std::mem::take(&mut self.spinning) {
            true => spin::tell(),
            false => WORK.notify_one(),
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

/// Attached once for the life of the thread, so that Python keeps its state of the thread;
/// waiting is done detached.
fn worker() {
    outside::this_is_a_call_thread();
    Python::attach(|py| py.detach(work));
}

fn work() {
    ensure_standby();
    let mut habit = Spin::new(&SPIN);
    let mut began = AGE.load(Ordering::Relaxed);
    while wait_for_work(&mut habit, &mut began) {
        Python::attach(|py| {
            while let Some(job) = next(&mut began) {
                job.run(py);
                ENDED.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

fn next(began: &mut u64) -> Option<Job> {
    let taken = queue::take();
    if taken.is_some() && AGE.load(Ordering::Relaxed) == *began {
        return taken;
    }
    let mut pool = pool();
    pool.gone_on(began);
    let job = taken.or_else(|| pool.queue.advance());
    if !pool.queue.is_empty() {
        pool.have_watched();
    }
    job
}

/// `false`: this thread has been idle long enough, and is not the last one.
fn wait_for_work(habit: &mut Spin, began: &mut u64) -> bool {
    let since = now_ns();
    let mut pool = pool();
    pool.gone_on(began);
    pool.idle += 1;
    if pool.idle == pool.workers {
        pool.blocked = 0;
    }
    if pool.queue.is_empty() && !pool.spinning && habit.budget() > 0 {
        pool.spinning = true;
        spin::begin();
        drop(pool);
        let told = spin::run(habit, since);
        pool = self::pool();
        // Whoever told us has cleared it, and another may spin by now. Should both be wrong, a
        // worker that spins looks at the queue before it sleeps, as we do.
        pool.spinning &= told;
    }
    loop {
        pool.told = false;
        if !pool.queue.is_empty() {
            pool.idle -= 1;
            habit.note_wait(now_ns().saturating_sub(since));
            *began = AGE.load(Ordering::Relaxed);
            return true;
        }
        let (again, waited) = WORK
            .wait_timeout(pool, IDLE)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        pool = again;
        if waited.timed_out() && pool.queue.is_empty() && pool.workers > 1 {
            pool.idle -= 1;
            pool.workers -= 1;
            return false;
        }
    }
}

fn ensure_standby() {
    let mut pool = pool();
    if !pool.standby && pool.workers < pool.max_threads {
        // Without memory for another thread calls wait for the ones before them.
        pool.standby = start(standby);
        // It begins with a look at the queue.
        pool.watching = true;
    }
}

/// Waits until it is needed, then becomes a worker.
fn standby() {
    {
        let mut pool = pool();
        loop {
            if std::mem::take(&mut pool.needed) {
                break;
            }
            if pool.queue.is_empty() {
                pool.watching = false;
                pool = WATCH
                    .wait(pool)
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            }
            pool.watching = true;
            let ended = ENDED.load(Ordering::Relaxed);
            (pool, _) = WATCH
                .wait_timeout(pool, PATIENCE)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            if ENDED.load(Ordering::Relaxed) != ended || pool.queue.is_empty() {
                continue;
            }
            pool.nobody_gets_on();
            if pool.idle > 0 {
                pool.tell_idle();
                continue;
            }
            pool.needed = false;
            break;
        }
        pool.standby = false;
        pool.watching = false;
        pool.workers += 1;
    }
    worker();
}
