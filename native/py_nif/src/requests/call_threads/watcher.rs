//! The watcher of a pool: a thread that notices when calls wait and none is taken. Then the calls
//! that run are slow, and the pool adds a thread. When it has no more, the watcher moves calls to
//! the reserves and reports the situation.
//!
//! It sleeps while no call waits and a thread is free, and while there is nothing that it could do.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use super::pool::{Pool, State};
use super::{QueuedCall, or_fail};
use crate::requests::reports;

/// How long calls wait without one being taken before the calls that run are slow.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long no call has been taken, with all threads occupied, before the reserves are used.
const HANGS: Duration = Duration::from_millis(100);
/// How long a call waits, or all threads run the same calls, before that is reported.
const REPORTED: Duration = Duration::from_secs(1);

/// What the watcher has seen of the queue.
struct Progress {
    /// How many calls had been taken, and when that changed last.
    taken: u64,
    moved: Instant,
    /// When this many calls have been taken, those that waited at `since` are among them.
    last: u64,
    since: Instant,
}

impl Progress {
    fn begin(pool: &Pool) -> Self {
        let (now, taken) = (Instant::now(), pool.taken());
        Progress {
            taken,
            moved: now,
            last: taken + pool.waiting() as u64,
            since: now,
        }
    }

    /// Returns whether a call was taken.
    fn look(&mut self, pool: &Pool) -> bool {
        let taken = pool.taken();
        if taken == self.taken {
            return false;
        }
        if taken >= self.last {
            *self = Progress::begin(pool);
        } else {
            (self.taken, self.moved) = (taken, Instant::now());
        }
        true
    }

    fn hangs(&self) -> bool {
        self.moved.elapsed() >= HANGS
    }

    /// How long until there is something to do while all threads are occupied, if at all.
    fn next(&self, is_reported: bool) -> Option<Duration> {
        let hangs = (!self.hangs()).then(|| HANGS.saturating_sub(self.moved.elapsed()));
        let reported = (!is_reported).then(|| REPORTED.saturating_sub(self.since.elapsed()));
        hangs.into_iter().chain(reported).min()
    }
}

pub fn run(pool: &'static Pool) {
    let mut state = pool.lock();
    loop {
        state = pool.wait_for_work(state);
        state = watch(pool, state);
    }
}

/// Until no call waits and there is a thread for the next one.
fn watch<'a>(pool: &'static Pool, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let mut progress = Progress::begin(pool);
    while pool.wants_watching(&state) {
        state.awaits_progress = pool.is_full(&state);
        let patience = match state.awaits_progress {
            true => progress.next(state.is_reported),
            false => Some(PATIENCE),
        };
        state = pool.await_call(state, patience);
        state.awaits_progress = false;
        if progress.look(pool) || !pool.wants_watching(&state) {
            continue;
        }
        pool.mark_slow(&state);
        if progress.since.elapsed() >= REPORTED && !state.is_reported {
            state.is_reported = true;
            state = report(pool, state);
        }
        if pool.is_full(&state) && progress.hangs() {
            pool.set_hangs(true);
            state = unlocked(pool, state, || use_reserves(pool));
        } else {
            state = unlocked(pool, state, || pool.attend_to_queue());
        }
    }
    state
}

fn unlocked<'a>(
    pool: &'static Pool,
    state: MutexGuard<'a, State>,
    work: impl FnOnce(),
) -> MutexGuard<'a, State> {
    drop(state);
    work();
    pool.lock()
}

/// Moves calls that need not wait for those that hang. Later ones go to the reserves at once.
fn use_reserves(pool: &'static Pool) {
    for (reserve, queued) in pool.extract(QueuedCall::in_reserve) {
        or_fail(queued, |queued| reserve.post(queued, 0));
    }
}

/// Sends `py_calls` what the threads run.
fn report<'a>(pool: &'static Pool, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let (all, threads, waiting) = (state.all.clone(), state.threads, pool.waiting());
    // Callers must not wait for the lock while the message is built.
    unlocked(pool, state, || {
        let calls = (all.iter())
            .filter_map(|thread| Some((thread.occupied_by()?, thread.number)))
            .collect();
        reports::threads_taken(threads, waiting, calls);
    })
}
