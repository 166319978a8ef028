//! A queue of calls, the threads that take them, and the rule by which threads are added.
//!
//! A thread is *ready* if it can be expected to take the next call: it is between two calls, or its
//! call is not slow. The watcher (`call_threads/watcher.rs`) finds out which calls are slow. When a
//! call waits and no thread is ready, a thread is woken or started, up to the limit.
//!
//! Two orders have to be kept, so that no call waits unnoticed:
//!
//! | who adds a call | a thread or the watcher that goes to sleep |
//! |---|---|
//! | adds it to the queue | announces that it sleeps (`ready`, `watcher_sleeps`) |
//! | checks who is ready, and whether the watcher sleeps | checks the queue |
//!
//! Each has a fence between its two steps, so at least one sees what the other has done.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam_queue::SegQueue;

use super::call_thread::CallThread;
use super::{QueuedCall, watcher, worker};
use crate::requests::on_loop::loop_requests::Refused;

pub struct Pool {
    calls: SegQueue<QueuedCall>,
    /// How many calls have been taken. Relaxed: a count that orders nothing.
    taken: AtomicU64,
    /// How many threads are ready, including those that were woken or started and have not arrived
    /// yet. Relaxed, with the fences described above.
    ready: AtomicIsize,
    /// The watcher has nothing to do until it is called, or has not been started. As `ready`.
    watcher_sleeps: AtomicBool,
    /// All threads are occupied, and none has taken a call for a while. Relaxed, with the fences: a
    /// caller adds its call and then sees the change, or the watcher finds the call.
    hangs: AtomicBool,
    /// Relaxed: a setting.
    max_queue: AtomicUsize,
    state: Mutex<State>,
    watcher_called: Condvar,
    /// How many idle threads stay.
    pub keeps: usize,
}

pub struct State {
    /// Threads that run calls or wait for some, without those outside.
    pub threads: usize,
    /// Threads that sleep. The one that went to sleep last is woken first: its memory is in a
    /// cache, and threads that are not needed sleep long enough to end.
    pub idle: Vec<Thread>,
    /// All threads, including those outside.
    pub all: Vec<Arc<CallThread>>,
    /// The situation was reported, and since then no thread was free.
    pub is_reported: bool,
    has_watcher: bool,
    /// All threads run slow calls: the watcher waits until one of these ends.
    pub awaits_progress: bool,
    max_threads: usize,
}

#[derive(Default)]
pub struct Info {
    pub threads: usize,
    pub idle: usize,
    pub queued: usize,
    pub ended: u64,
    /// Calls that run although their callers have gone.
    pub abandoned: usize,
}

impl Info {
    pub fn add(self, other: Info) -> Info {
        Info {
            threads: self.threads + other.threads,
            idle: self.idle + other.idle,
            queued: self.queued + other.queued,
            ended: self.ended + other.ended,
            abandoned: self.abandoned + other.abandoned,
        }
    }
}

impl Pool {
    pub const fn keeping(keeps: usize) -> Self {
        Pool {
            calls: SegQueue::new(),
            taken: AtomicU64::new(0),
            ready: AtomicIsize::new(0),
            watcher_sleeps: AtomicBool::new(true),
            hangs: AtomicBool::new(false),
            max_queue: AtomicUsize::new(100_000),
            state: Mutex::new(State {
                threads: 0,
                idle: Vec::new(),
                all: Vec::new(),
                is_reported: false,
                has_watcher: false,
                awaits_progress: false,
                max_threads: 64,
            }),
            watcher_called: Condvar::new(),
            keeps,
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and lists, each changed at once: consistent also after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn limit(&'static self, max_threads: usize, max_queue: usize) {
        self.max_queue.store(max_queue, Ordering::Relaxed);
        let mut state = self.lock();
        state.max_threads = max_threads.max(1);
        self.set_hangs(false);
        self.call_watcher(&mut state);
    }

    pub fn info(&self) -> Info {
        let state = self.lock();
        let running: Vec<_> = state.all.iter().filter_map(|one| one.request()).collect();
        Info {
            threads: state.threads,
            idle: state.idle.len(),
            queued: self.calls.len(),
            ended: self.taken().saturating_sub(running.len() as u64),
            abandoned: running.iter().filter(|request| request.is_left()).count(),
        }
    }

    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Relaxed)
    }

    pub fn set_hangs(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    // ---- calls ----

    /// Queues a job, unless the queue, or the number of `others`, is at the limit.
    pub fn post(&'static self, queued: QueuedCall, others: usize) -> Result<(), Refused> {
        if self.waiting().max(others) >= self.max_queue.load(Ordering::Relaxed) {
            return Err(Refused::Overload);
        }
        if !self.is_a_thread_ready() {
            let mut state = self.lock();
            // The system may be unable to start a thread.
            if state.threads == 0 && !self.start_thread(&mut state) {
                return Err(Refused::Overload);
            }
        }
        self.post_admitted(queued);
        Ok(())
    }

    /// Queues a job. If no thread can be started for it, it waits until one can.
    pub fn post_admitted(&'static self, queued: QueuedCall) {
        self.calls.push(queued);
        fence(Ordering::SeqCst);
        if !self.is_a_thread_ready() || self.watcher_sleeps.load(Ordering::Relaxed) {
            self.attend_to_queue();
        }
    }

    /// The next call, for a thread that is ready.
    pub fn take(&self) -> Option<QueuedCall> {
        let queued = self.calls.pop()?;
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(queued)
    }

    /// Removes the jobs that `choose` accepts. Calls that are queued meanwhile may overtake others.
    pub fn extract<T>(
        &'static self,
        choose: impl Fn(QueuedCall) -> Result<T, QueuedCall>,
    ) -> Vec<T> {
        let mut chosen = Vec::new();
        for queued in (0..self.waiting()).map_while(|_| self.calls.pop()) {
            match choose(queued) {
                Ok(one) => chosen.push(one),
                Err(queued) => self.post_admitted(queued),
            }
        }
        chosen
    }

    // ---- threads ----

    fn is_a_thread_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) > 0
    }

    pub fn add_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread that was ready is not any more; the caller then checks the queue.
    pub fn remove_ready(&self) {
        self.ready.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The rule. Call it when calls wait or a thread is no longer ready.
    pub fn attend_to_queue(&'static self) {
        let mut state = self.lock();
        let sleeper = self.add_thread_if_needed(&mut state);
        // The woken thread often gets the CPU at once, and needs the lock.
        drop(state);
        if let Some(thread) = sleeper {
            thread.unpark();
        }
    }

    fn add_thread_if_needed(&'static self, state: &mut State) -> Option<Thread> {
        if self.calls.is_empty() {
            return None;
        }
        if self.is_a_thread_ready() {
            // The watcher checks that it takes the call.
            self.call_watcher(state);
            return None;
        }
        if state.are_all_taken() {
            if !state.awaits_progress {
                self.call_watcher(state);
            }
            return None;
        }
        let sleeper = state.idle.pop();
        let added = match sleeper {
            Some(_) => {
                self.add_ready();
                true
            }
            None => self.start_thread(state),
        };
        // If no thread can be started, the watcher tries again.
        if !added || state.are_all_taken() {
            self.call_watcher(state);
        }
        sleeper
    }

    fn start_thread(&'static self, state: &mut State) -> bool {
        let started = start("python-call", move || worker::run(self));
        if started {
            state.threads += 1;
            self.add_ready();
        }
        started
    }

    /// No call was taken for a while: the calls that run are slow.
    pub fn mark_slow(&self, state: &State) {
        for thread in &state.all {
            if thread.mark_slow() {
                self.remove_ready();
            }
        }
    }

    /// A slow call has ended, or a thread is no longer outside: the thread is ready again.
    #[cold]
    pub fn note_progress(&'static self, state: &mut State) {
        self.add_ready();
        self.set_hangs(false);
        if state.awaits_progress {
            self.call_watcher(state);
        }
    }

    // ---- the watcher ----

    /// Whether a call waits, or would have to wait.
    pub fn wants_watching(&self, state: &State) -> bool {
        !self.calls.is_empty() || state.are_all_taken()
    }

    /// Whether only the end of a call, for which the watcher is called, lets others continue.
    pub fn is_full(&self, state: &State) -> bool {
        !self.is_a_thread_ready() && state.are_all_taken()
    }

    /// The watcher checks the queue from now on.
    fn call_watcher(&'static self, state: &mut State) {
        if !state.has_watcher {
            state.has_watcher = start("python-call-watch", move || watcher::run(self));
        }
        let slept = self.watcher_sleeps.swap(false, Ordering::Relaxed);
        if slept || std::mem::take(&mut state.awaits_progress) {
            self.watcher_called.notify_one();
        }
    }

    /// A call was queued for the call threads although they hang: it may be one for a reserve.
    pub fn check_reserves(&'static self) {
        self.call_watcher(&mut self.lock());
    }

    /// For the watcher: sleeps until it is called.
    pub fn wait_for_work<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        loop {
            self.watcher_sleeps.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.wants_watching(&state) {
                self.watcher_sleeps.store(false, Ordering::Relaxed);
                return state;
            }
            state = self.await_call(state, None);
        }
    }

    /// For the watcher: sleeps for a while, or until it is called.
    pub fn await_call<'a>(
        &'a self,
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
}

impl State {
    /// No thread sleeps or can be started. Some may be between two calls.
    pub fn are_all_taken(&self) -> bool {
        self.threads >= self.max_threads && self.idle.is_empty()
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
