//! A queue of calls and the threads that take them.
//!
//! One lock guards the threads and the back of the queue. It is held for a few instructions at a
//! time, except while a thread is started.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use super::queue::{Back, Queue};
use super::{QueuedCall, watcher, worker};
use crate::beam::resource::Ref;
use crate::loops::Refused;
use crate::requests::request::Request;

pub struct Pool {
    pub queue: Queue,
    state: Mutex<State>,
    watcher_called: Condvar,
    /// How many times no running call made progress. Threads count as active only if their call
    /// began in the present round. Written under the lock; a thread that misses a change sees it
    /// after its next call, so Relaxed.
    round: AtomicU64,
    /// All threads are occupied, and none has taken a call for a while. Relaxed: if a caller misses
    /// the change, the watcher moves its call to the reserve.
    hangs: AtomicBool,
    /// How many idle threads stay.
    pub keeps: usize,
}

pub struct State {
    pub back: Back,
    /// Threads that run calls or wait for some.
    pub threads: usize,
    /// Threads that sleep. The one that went to sleep last is woken first: its memory is in a
    /// cache, and threads that are not needed sleep long enough to end.
    pub idle: Vec<Thread>,
    /// Threads that were woken or started, and have not checked the queue yet.
    pub coming: usize,
    /// Threads that run a call that began in this round, or check for the next call.
    pub active: usize,
    /// A thread has gone to sleep since the watcher last looked.
    pub was_free: bool,
    pub watcher: Watcher,
    /// One for each thread, including those outside.
    pub seats: Vec<Arc<Seat>>,
    max_threads: usize,
    max_queue: usize,
}

pub enum Watcher {
    /// The thread has not been started.
    None,
    /// It sleeps until it is called: no call waits.
    Asleep,
    /// It checks the queue every few milliseconds.
    Looking,
    /// All threads are occupied: it sleeps until one of them takes a call, or until it has something
    /// to report.
    Full,
}

/// What one of the threads is doing.
pub struct Seat {
    /// Python's number for the thread.
    pub thread: u64,
    /// The round in which it was last counted as active. Written under
    /// the pool's lock by that thread: Relaxed.
    round: AtomicU64,
    /// The request it runs. The lock is free unless a report is being written.
    request: Mutex<Option<Ref<Request>>>,
}

impl Seat {
    pub fn new(thread: u64) -> Self {
        Seat {
            thread,
            round: AtomicU64::new(0),
            request: Mutex::new(None),
        }
    }

    pub fn round(&self) -> u64 {
        self.round.load(Ordering::Relaxed)
    }

    pub fn set_round(&self, round: u64) {
        self.round.store(round, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ref<Request>>> {
        // Only ever replaced as a whole.
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the request that runs from now on, and returns the one before.
    pub fn replace(&self, request: Option<Ref<Request>>) -> Option<Ref<Request>> {
        std::mem::replace(&mut *self.lock(), request)
    }

    pub fn request(&self) -> Option<Ref<Request>> {
        self.lock().clone()
    }
}

#[derive(Default)]
pub struct Info {
    pub threads: usize,
    pub idle: usize,
    pub queued: usize,
    pub ended: u64,
}

impl Info {
    pub fn add(self, other: Info) -> Info {
        Info {
            threads: self.threads + other.threads,
            idle: self.idle + other.idle,
            queued: self.queued + other.queued,
            ended: self.ended + other.ended,
        }
    }
}

impl Pool {
    pub const fn keeping(keeps: usize) -> Self {
        Pool {
            queue: Queue::new(),
            state: Mutex::new(State {
                back: Back::new(),
                threads: 0,
                idle: Vec::new(),
                coming: 0,
                active: 0,
                was_free: false,
                watcher: Watcher::None,
                seats: Vec::new(),
                max_threads: 64,
                max_queue: 100_000,
            }),
            watcher_called: Condvar::new(),
            round: AtomicU64::new(0),
            hangs: AtomicBool::new(false),
            keeps,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and a queue: consistent also after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn round(&self) -> u64 {
        self.round.load(Ordering::Relaxed)
    }

    /// No running call makes progress: their threads are active again when the call has ended.
    pub fn begin_round(&self, state: &mut State) {
        self.round.fetch_add(1, Ordering::Relaxed);
        state.active = 0;
    }

    pub fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Relaxed)
    }

    pub fn set_hangs(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    pub fn limit(&self, max_threads: usize, max_queue: usize) {
        let mut state = self.lock();
        state.max_threads = max_threads.max(1);
        state.max_queue = max_queue;
    }

    pub fn info(&self) -> Info {
        let state = self.lock();
        Info {
            threads: state.threads,
            idle: state.idle.len(),
            queued: self.queue.len(),
            ended: self.queue.ended(),
        }
    }

    /// Queues a job, unless the queue, or the number of `others`, is at the limit.
    pub fn post(&'static self, queued: QueuedCall, others: usize) -> Result<(), Refused> {
        let mut state = self.lock();
        if self.queue.len().max(others) >= state.max_queue {
            return Err(Refused::Overload);
        }
        let sleeper = self.push(&mut state, queued);
        if state.threads == 0 {
            // The system cannot start a thread.
            let queued = self.queue.take_back(&mut state.back);
            drop(state);
            return match queued {
                Some(_) => Err(Refused::Overload),
                None => Ok(()),
            };
        }
        drop(state);
        wake(sleeper);
        Ok(())
    }

    /// Queues a job. If no thread can be started for it, it waits until one can.
    pub fn post_admitted(&'static self, queued: QueuedCall) {
        let mut state = self.lock();
        let sleeper = self.push(&mut state, queued);
        drop(state);
        wake(sleeper);
    }

    #[must_use]
    fn push(&'static self, state: &mut State, queued: QueuedCall) -> Option<Thread> {
        self.queue.push(&mut state.back, queued);
        self.attend_to_queue(state)
    }

    /// Calls wait: an active thread takes them, and the watcher checks that it does. Without an
    /// active thread, another is added. Returns the thread to [wake].
    #[must_use]
    pub fn attend_to_queue(&'static self, state: &mut State) -> Option<Thread> {
        if state.active + state.coming == 0 && !state.are_all_taken() {
            return self.add_thread(state);
        }
        self.have_watched(state);
        None
    }

    /// Adds a thread: returns a sleeping one, to [wake], or starts one. If that fails, the watcher
    /// tries again.
    #[must_use]
    pub fn add_thread(&'static self, state: &mut State) -> Option<Thread> {
        let sleeper = state.idle.pop();
        if sleeper.is_none() {
            self.have_watched(state);
            if !start("python-call", move || worker::run(self)) {
                return None;
            }
            state.threads += 1;
        }
        state.coming += 1;
        sleeper
    }

    fn have_watched(&'static self, state: &mut State) {
        match state.watcher {
            Watcher::None => {
                if start("python-call-watch", move || watcher::run(self)) {
                    state.watcher = Watcher::Looking;
                }
            }
            Watcher::Looking => {}
            Watcher::Full if state.are_all_taken() => {}
            Watcher::Asleep | Watcher::Full => self.call_watcher(state),
        }
    }

    fn call_watcher(&self, state: &mut State) {
        state.watcher = Watcher::Looking;
        self.watcher_called.notify_one();
    }

    /// For the watcher: sleeps until it is called, at most for `patience`.
    pub fn await_call<'a>(
        &self,
        state: MutexGuard<'a, State>,
        patience: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match patience {
            Some(patience) => {
                let waited = self.watcher_called.wait_timeout(state, patience);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.watcher_called.wait(state);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// The next call, for a thread that is active.
    pub fn take(&'static self, state: &mut State) -> Option<QueuedCall> {
        if self.hangs() {
            self.set_hangs(false);
        }
        let queued = self.queue.advance(&mut state.back)?;
        if let Watcher::Full = state.watcher {
            self.call_watcher(state);
        } else if self.wants_watching(state) {
            self.have_watched(state);
        }
        Some(queued)
    }

    pub fn wants_watching(&self, state: &State) -> bool {
        !self.queue.is_empty() || state.are_all_taken()
    }
}

impl State {
    /// No thread sleeps, is on its way or can be started. Some may be between two calls.
    pub fn are_all_taken(&self) -> bool {
        self.threads >= self.max_threads && self.idle.is_empty() && self.coming == 0
    }
}

/// Call it without the pool's lock: the woken thread needs the lock, and often gets the CPU at
/// once.
pub fn wake(sleeper: Option<Thread>) {
    if let Some(thread) = sleeper {
        thread.unpark();
    }
}

fn start(name: &str, body: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new()
        .name(name.to_owned())
        // The stack size of Python's main thread.
        .stack_size(8 << 20)
        .spawn(body)
        .is_ok()
}
