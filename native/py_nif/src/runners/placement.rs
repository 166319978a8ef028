//! Which thread runs a loop that Erlang started.
//!
//! A *runner* is a thread that runs loops; `runner` contains its code. A loop is assigned to a
//! runner when it gets its first request, and stays there for life. The first loops have a runner
//! each; beyond `loop_threads` of them they share. A busy runner, one that runs Python for most of
//! its time or has been stuck in one callback, gets no more loops. So a busy loop has its thread to
//! itself where possible, and if all runners are busy, further ones are started. A loop that
//! requested its own thread never shares it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use event_loop::{Inbox, now_ns};

use super::runner;
use super::start::Start;
use crate::cpython::process::finalizing;
use crate::loops::busy_share::BusyShare;
use crate::loops::{ChooseRunner, LoopRunner, NativeLoop, registry};

/// A runner that is busy for more than this share of its time, in thousandths, gets no more loops.
const BUSY: u64 = 250;
/// There are at most this many times `loop_threads` runners, when all are busy.
const STRETCH: usize = 4;

/// A loop that has been assigned to a runner.
pub struct Arrival {
    pub native: Arc<NativeLoop>,
    pub start: Start,
}

pub struct Runner {
    /// What it waits with while it has several loops; none for a loop with its own thread.
    pub waits: Option<Arc<NativeLoop>>,
    /// Loops that were woken while they rested, by their numbers.
    pub woken: Inbox<u64>,
    pub arrivals: Inbox<Arrival>,
    /// The loop in whose own wait the thread is, while it has no other.
    alone: Mutex<Option<Arc<NativeLoop>>>,
    pub busy: Arc<BusyShare>,
    /// How many loops it runs or will run. Changed under the lock of `RUNNERS`.
    loops: AtomicUsize,
    /// Turns, beginnings and ends of its loops. Relaxed: only its own thread writes, and readers
    /// only check whether it grows.
    steps: AtomicU64,
}

struct Runners {
    /// Runners that may get further loops.
    shared: Vec<Arc<Runner>>,
    limit: usize,
}

static RUNNERS: Mutex<Runners> = Mutex::new(Runners {
    shared: Vec::new(),
    limit: 8,
});

fn runners() -> MutexGuard<'static, Runners> {
    // Single insertions and removals: consistent also after a panic.
    RUNNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many runners are started before loops share one.
pub fn limit(threads: usize) {
    runners().limit = threads.max(1);
}

/// How many loops each shared runner has.
pub fn shared() -> Vec<usize> {
    let count = |runner: &Arc<Runner>| runner.loops.load(Ordering::Relaxed);
    runners().shared.iter().map(count).collect()
}

impl ChooseRunner for Start {
    fn choose(
        self: Box<Self>,
        native: &Arc<NativeLoop>,
    ) -> Result<Arc<dyn LoopRunner>, Box<dyn ChooseRunner>> {
        let runner = match self.own {
            true => Runner::start(false),
            false => runners().choose(),
        };
        let Some(runner) = runner else {
            return Err(self);
        };
        runner.arrive(Arrival {
            native: native.clone(),
            start: *self,
        });
        Ok(runner)
    }
}

impl Runners {
    fn choose(&mut self) -> Option<Arc<Runner>> {
        let now = now_ns();
        let count = |runner: &Arc<Runner>| runner.loops.load(Ordering::Relaxed);
        let quiet = self
            .shared
            .iter()
            .filter(|runner| runner.busy.share(now) < BUSY)
            .min_by_key(|runner| count(runner))
            .cloned();
        let room = match &quiet {
            Some(runner) if count(runner) == 0 => false,
            Some(_) => self.shared.len() < self.limit,
            None => self.shared.len() < self.limit * STRETCH,
        };
        if room && let Some(runner) = Runner::start(true) {
            self.shared.push(runner.clone());
            return Some(runner);
        }
        let least_busy = || {
            let busy = |runner: &&Arc<Runner>| (runner.busy.share(now), count(runner));
            self.shared.iter().min_by_key(busy).cloned()
        };
        let chosen = quiet.or_else(least_busy)?;
        chosen.loops.fetch_add(1, Ordering::Relaxed);
        Some(chosen)
    }
}

impl Runner {
    /// Starts one with a first loop assigned. `None`: the system has no thread or no descriptors
    /// left.
    fn start(shared: bool) -> Option<Arc<Runner>> {
        let waits = match shared {
            true => Some(NativeLoop::for_runner().ok()?),
            false => None,
        };
        let runner = Arc::new(Runner {
            waits,
            woken: Inbox::new(),
            arrivals: Inbox::new(),
            alone: Mutex::new(None),
            busy: Arc::default(),
            loops: AtomicUsize::new(1),
            steps: AtomicU64::new(0),
        });
        let body = runner.clone();
        thread::Builder::new()
            .name(format!("python-loop-{}", registry::new_id()))
            // The stack size of Python's main thread.
            .stack_size(8 << 20)
            .spawn(move || finalizing::attach(|py| runner::run(py, &body)))
            .ok()?;
        Some(runner)
    }

    /// Counts a step of its thread.
    pub fn step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps + 1, Ordering::Relaxed);
    }

    fn arrive(&self, arrival: Arrival) {
        // Never rejected: the inbox has no limit and is not closed before the last loop has left.
        let _ = self.arrivals.push(arrival);
        self.wake();
    }

    fn alone(&self) -> MutexGuard<'_, Option<Arc<NativeLoop>>> {
        // Only ever replaced as a whole.
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread is about to wait on this loop only, or no longer. A later caller wakes that loop:
    /// the thread checks for arrivals after this call.
    pub fn set_alone(&self, native: Option<Arc<NativeLoop>>) {
        *self.alone() = native;
    }

    /// Wakes the thread, however it waits.
    fn wake(&self) {
        if let Some(native) = &self.waits {
            native.core.wake();
        }
        // Not under the lock: a loop that still rests calls this runner, which comes here again.
        let alone = self.alone().clone();
        if let Some(native) = alone {
            native.core.wake();
        }
    }

    /// A loop has ended. Returns `true` if it was the last one, and no other will come.
    pub fn left(self: &Arc<Self>) -> bool {
        let mut runners = runners();
        let last = self.loops.fetch_sub(1, Ordering::Relaxed) == 1;
        if last {
            runners.shared.retain(|runner| !Arc::ptr_eq(runner, self));
        }
        last
    }
}

impl LoopRunner for Runner {
    fn wake_loop(&self, id: u64) {
        if let Ok(true) = self.woken.push(id) {
            self.wake();
        }
    }

    fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn busy(&self, now: u64) -> u64 {
        self.busy.share(now)
    }
}
