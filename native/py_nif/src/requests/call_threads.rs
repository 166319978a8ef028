//! The threads that plain functions run on: never a scheduler of the VM, never a loop.
//!
//! All calls wait in one queue. One thread takes them one after another while they are short: with
//! one GIL, more threads would only pass it back and forth. A thread that finds the queue empty spins
//! for a moment before it sleeps (`call_threads/worker.rs`). The watcher (`call_threads/watcher.rs`)
//! adds threads by one rule: when calls wait, none has been taken for 2 ms and no thread is on its
//! way, it wakes or starts one more, up to the limit. Threads beyond the first end after some seconds
//! without a call.
//!
//! When calls that hang occupy all threads, two reserves take the requests that must not wait for
//! them: one finds out which functions are coroutine functions, the other runs `py:eval` and
//! `py:exec`. They are pools of the same kind that keep no idle thread.
//!
//! A thread that waits for Erlang (`erlang.call`) is *outside* (`call_threads/outside.rs`): it does
//! not count, because the reply may need a thread.

mod outside;
mod pool;
mod queue;
mod watcher;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pyo3::prelude::*;

pub use outside::outside;
pub use pool::Info;
use pool::Pool;

use super::calls;
use super::plain_streams;
use super::plain_streams::Slice;
use super::request::{Request, What};
use super::task::Task;
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::cpython::process::forked;
use crate::loops::{NativeLoop, Refused};

static CALLS: Pool = Pool::keeping(1);
/// Finds functions, and whether they are coroutine functions, while calls hang on the call threads.
static LOOKUPS: Pool = Pool::keeping(0);
/// Runs the code of `py:eval` and `py:exec` while calls hang on the call threads.
static SHELL: Pool = Pool::keeping(0);

pub enum Job {
    Call {
        request: Request,
        /// The loop of the request, which runs awaitables.
        home: Option<Arc<NativeLoop>>,
    },
    /// Finds the function of a call, importing its module, without calling it; then the request
    /// goes to its loop or to the call threads.
    LookUp {
        request: Request,
        home: Option<Arc<NativeLoop>>,
    },
    /// The next slice of a generator.
    Stream(Slice),
}

impl Job {
    pub fn task(&self) -> &Ref<Task> {
        match self {
            Job::Call { request, .. } | Job::LookUp { request, .. } => &request.task,
            Job::Stream(slice) => &slice.task,
        }
    }

    fn home(&self) -> Option<&Arc<NativeLoop>> {
        match self {
            Job::Call { home, .. } | Job::LookUp { home, .. } => home.as_ref(),
            Job::Stream(slice) => slice.home.as_ref(),
        }
    }

    fn run(self, py: Python<'_>) {
        let (task, home) = (self.task().clone(), self.home().cloned());
        let run = || match self {
            Job::Call { request, home } => calls::run(py, request, home),
            Job::LookUp { request, home } => calls::look_up(py, request, home),
            Job::Stream(slice) => slice.run(py),
        };
        // A panic in our own code must not end the thread, nor leave the task registered with its
        // loop.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            task.fail(Sender::Thread, atoms::panicked());
            calls::settle(&task, home.as_ref());
        }
        // Code that runs during conversions may fork, too.
        forked::end_if_copy(py, &Ok(()));
    }

    /// The reserve that can take it while call threads hang, and its job there. `Err`: there is
    /// none.
    fn in_reserve(self) -> Result<(&'static Pool, Job), Job> {
        match self {
            Job::Call { request, home } => match &request.what {
                What::Call(function) if !function.is_known() => {
                    Ok((&LOOKUPS, Job::LookUp { request, home }))
                }
                What::Call(_) => Err(Job::Call { request, home }),
                What::Eval(_) | What::Exec(_) => Ok((&SHELL, Job::Call { request, home })),
            },
            Job::LookUp { .. } | Job::Stream(_) => Err(self),
        }
    }
}

/// All pools together.
pub fn info() -> Info {
    [&CALLS, &LOOKUPS, &SHELL]
        .into_iter()
        .map(Pool::info)
        .fold(Info::default(), Info::add)
}

/// Sets the maximum of threads and of waiting calls for each pool, and of threads that wait for
/// Erlang. Threads above the maximum end when they become idle.
pub fn limit(max_threads: usize, max_queue: usize, max_outside: usize) {
    for pool in [&CALLS, &LOOKUPS, &SHELL] {
        pool.limit(max_threads, max_queue);
    }
    outside::limit(max_outside);
}

/// Queues a call. From any thread; never waits for Python.
pub fn post(job: Job) -> Result<(), Refused> {
    let others = match job.task().is_stream {
        true => plain_streams::count(),
        false => 0,
    };
    let job = match CALLS.hangs() {
        true => match job.in_reserve() {
            Ok((reserve, job)) => return reserve.post(job, others),
            Err(job) => job,
        },
        false => job,
    };
    CALLS.post(job, others)
}

/// As [`post`], for a job that was accepted before: if it is rejected now, its caller gets the
/// reason as the reply.
pub fn post_or_fail(job: Job) {
    or_fail(job, post);
}

fn or_fail(job: Job, post: impl FnOnce(Job) -> Result<(), Refused>) {
    let (task, home) = (job.task().clone(), job.home().cloned());
    if let Err(why) = post(job) {
        task.fail(Sender::Thread, why.atom());
        calls::settle(&task, home.as_ref());
    }
}

/// Queues a job that was accepted before and now continues: it is never rejected.
pub fn post_admitted(job: Job) {
    CALLS.post_admitted(job);
}

/// Whether calls wait for a thread.
pub fn are_waiting() -> bool {
    !CALLS.queue.is_empty()
}
