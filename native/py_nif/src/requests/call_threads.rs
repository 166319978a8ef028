//! The threads that plain functions run on: never a scheduler of the VM, never a loop.
//!
//! All calls wait in one queue. One thread takes them one after another while they are short: with
//! one GIL, more threads would only pass it back and forth. A thread that finds the queue empty spins
//! for a moment before it sleeps (`call_threads/worker.rs`). Threads are added by one rule
//! (`call_threads/pool.rs`): when a call waits, and the call of every thread is *slow* because calls
//! have waited for 2 ms without one being taken (`call_threads/watcher.rs`), one more is woken or
//! started, up to the limit. Threads beyond the first end after some seconds without a call.
//!
//! When calls that hang occupy all threads, two reserves take the requests that must not wait for
//! them: one finds out which functions are coroutine functions, the other runs `py:eval` and
//! `py:exec`. They are pools of the same kind that keep no idle thread.
//!
//! A thread that waits for Erlang (`erlang.call`) is *outside* (`call_threads/outside.rs`): it does
//! not count, because the reply may need a thread.

mod call_thread;
pub mod interrupts;
mod outside;
mod pool;
mod watcher;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pyo3::prelude::*;

use call_thread::CallThread;
pub use call_thread::Wake;
pub use outside::{Outside, outside};
pub use pool::Info;
use pool::Pool;

use super::call::{Call, Code};
use super::calls;
use super::functions;
use super::on_loop::loop_requests::Refused;
use super::plain_streams;
use super::plain_streams::Slice;
use super::request::Request;
use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::cpython::process::forked;
use crate::cpython::sampling::PythonThread;
use crate::loops::NativeLoop;

static CALLS: Pool = Pool::keeping(1);
/// Finds functions, and whether they are coroutine functions, while calls hang on the call threads.
static LOOKUPS: Pool = Pool::keeping(0);
/// Runs the code of `py:eval` and `py:exec` while calls hang on the call threads.
static SHELL: Pool = Pool::keeping(0);

pub enum QueuedCall {
    Call {
        call: Call,
        /// The loop of the request, which runs awaitables.
        home: Option<Arc<NativeLoop>>,
    },
    /// Finds the function of a call, importing its module, without calling it; then the request
    /// goes to its loop or to the call threads.
    LookUp {
        call: Call,
        home: Option<Arc<NativeLoop>>,
    },
    /// The next slice of a generator.
    Stream(Slice),
}

impl QueuedCall {
    pub fn request(&self) -> &Ref<Request> {
        match self {
            QueuedCall::Call { call, .. } | QueuedCall::LookUp { call, .. } => &call.request,
            QueuedCall::Stream(slice) => &slice.request,
        }
    }

    fn home(&self) -> Option<&Arc<NativeLoop>> {
        match self {
            QueuedCall::Call { home, .. } | QueuedCall::LookUp { home, .. } => home.as_ref(),
            QueuedCall::Stream(slice) => slice.home.as_ref(),
        }
    }

    fn run(self, py: Python<'_>) {
        let (request, home) = (self.request().clone(), self.home().cloned());
        let run = || match self {
            QueuedCall::Call { call, home } => calls::run(py, call, home),
            QueuedCall::LookUp { call, home } => calls::look_up(py, call, home),
            QueuedCall::Stream(slice) => slice.run(py),
        };
        // A panic in our own code must not end the thread, nor leave the request registered with its
        // loop.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            request.fail(Sender::Thread, atoms::panicked());
            calls::settle(&request, home.as_ref());
        }
        // Code that runs during conversions may fork, too.
        forked::end_if_copy(py, &Ok(()));
        functions::ended(&request.name, request.runs_for().1);
    }

    /// The reserve that can take it while call threads hang, and its job there. `Err`: there is
    /// none.
    fn in_reserve(self) -> Result<(&'static Pool, QueuedCall), QueuedCall> {
        match self {
            QueuedCall::Call { call, home } => match &call.code {
                Code::Function(function) if !function.is_known() => {
                    Ok((&LOOKUPS, QueuedCall::LookUp { call, home }))
                }
                Code::Function(_) | Code::Method(_) => Err(QueuedCall::Call { call, home }),
                Code::Snippet(_) => Ok((&SHELL, QueuedCall::Call { call, home })),
            },
            QueuedCall::LookUp { .. } | QueuedCall::Stream(_) => Err(self),
        }
    }
}

/// All pools together.
pub fn info() -> Info {
    (POOLS.into_iter())
        .map(Pool::info)
        .fold(Info::default(), Info::add)
}

const POOLS: [&Pool; 3] = [&CALLS, &LOOKUPS, &SHELL];

/// All call threads.
fn threads() -> Vec<Arc<CallThread>> {
    (POOLS.into_iter())
        .flat_map(|pool| pool.lock().all.clone())
        .collect()
}

/// The requests that run, each with Python's number for its thread.
pub fn running() -> Vec<(Ref<Request>, u64)> {
    (threads().iter())
        .filter_map(|thread| Some((thread.request()?, thread.number)))
        .collect()
}

/// As [`running`], and whether the thread waits for Erlang.
pub fn occupied() -> Vec<(Ref<Request>, u64, bool)> {
    (threads().iter())
        .filter_map(|thread| Some((thread.request()?, thread.number, thread.is_outside())))
        .collect()
}

/// As [`running`], with the threads as profiles need them.
pub fn profiled() -> Vec<(Ref<Request>, PythonThread)> {
    (threads().iter())
        .filter_map(|thread| Some((thread.request()?, thread.thread)))
        .collect()
}

/// The call thread that runs this request.
fn thread_of(id: u64) -> Option<Arc<CallThread>> {
    let runs = |thread: &Arc<CallThread>| thread.request().is_some_and(|request| request.id == id);
    threads().into_iter().find(runs)
}

/// Monitors the callers of all calls that run.
pub fn monitor_callers(sender: Sender<'_>) {
    for (request, _) in running() {
        request.monitor_caller(sender);
    }
}

/// Sets the maximum of threads and of waiting calls for each pool, and of threads that wait for
/// Erlang. Threads above the maximum end when they become idle.
pub fn limit(max_threads: usize, max_queue: usize, max_outside: usize) {
    for pool in POOLS {
        pool.limit(max_threads, max_queue);
    }
    outside::limit(max_outside);
}

/// Queues a call. From any thread; never waits for Python.
pub fn post(queued: QueuedCall) -> Result<(), Refused> {
    let others = match queued.request().is_stream {
        true => plain_streams::count(),
        false => 0,
    };
    let hung = CALLS.hangs();
    let queued = match hung {
        true => match queued.in_reserve() {
            Ok((reserve, queued)) => return reserve.post(queued, others),
            Err(queued) => queued,
        },
        false => queued,
    };
    CALLS.post(queued, others)?;
    if !hung && CALLS.hangs() {
        CALLS.check_reserves();
    }
    Ok(())
}

/// As [`post`], for a job that was accepted before: if it is rejected now, its caller gets the
/// reason as the reply.
pub fn post_or_fail(queued: QueuedCall) {
    or_fail(queued, post);
}

fn or_fail(queued: QueuedCall, post: impl FnOnce(QueuedCall) -> Result<(), Refused>) {
    let (request, home) = (queued.request().clone(), queued.home().cloned());
    if let Err(why) = post(queued) {
        request.fail(Sender::Thread, why.atom());
        calls::settle(&request, home.as_ref());
    }
}

/// Queues a job that was accepted before and now continues: it is never rejected.
pub fn post_admitted(queued: QueuedCall) {
    CALLS.post_admitted(queued);
}

/// Whether calls wait for a thread.
pub fn are_waiting() -> bool {
    !CALLS.is_empty()
}
