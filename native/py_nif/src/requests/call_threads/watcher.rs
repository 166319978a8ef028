//! The watcher of a pool: a thread that adds threads when the running calls make no progress. When
//! no more threads can be added, it moves calls to the reserves and reports the situation.
//!
//! It sleeps while no call waits and a thread is free, and while there is nothing that it could do.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use super::pool::{Pool, State, Watcher, wake};
use super::{QueuedCall, or_fail};
use crate::requests::reports;

/// How long calls wait without one being taken before another thread is added.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long no call has been taken, with all threads occupied, before the reserves are used.
const HANGS: Duration = Duration::from_millis(100);
/// How long a call waits, or all threads run the same calls, before that is reported.
const REPORTED: Duration = Duration::from_secs(1);

/// A period in which at every moment a call waits or all threads are occupied.
struct Episode {
    /// When a call was last taken, as far as the watcher has seen.
    moved: Instant,
    /// When this many calls have been taken in all, those that waited at `since` are among them.
    last: u64,
    since: Instant,
    is_reported: bool,
}

impl Episode {
    fn begin(pool: &Pool) -> Self {
        let now = Instant::now();
        Episode {
            moved: now,
            last: pool.queue.taken() + pool.queue.len() as u64,
            since: now,
            is_reported: false,
        }
    }

    /// A call was taken.
    fn move_on(&mut self, pool: &Pool) {
        self.moved = Instant::now();
        if pool.queue.taken() >= self.last {
            self.last = pool.queue.taken() + pool.queue.len() as u64;
            self.since = self.moved;
        }
    }

    fn hangs(&self) -> bool {
        self.moved.elapsed() >= HANGS
    }

    fn is_to_be_reported(&self) -> bool {
        !self.is_reported && self.since.elapsed() >= REPORTED
    }

    /// How long until there is something to do while all threads are occupied, if at all.
    fn next(&self) -> Option<Duration> {
        let hangs = (!self.hangs()).then(|| HANGS.saturating_sub(self.moved.elapsed()));
        let reported = (!self.is_reported).then(|| REPORTED.saturating_sub(self.since.elapsed()));
        hangs.into_iter().chain(reported).min()
    }
}

pub fn run(pool: &'static Pool) {
    let mut state = pool.lock();
    loop {
        state = attend(pool, state);
        state.watcher = Watcher::Asleep;
        while let Watcher::Asleep = state.watcher {
            state = pool.await_call(state, None);
        }
    }
}

/// Until no call waits and there is a thread for the next one.
fn attend<'a>(pool: &'static Pool, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let mut episode = Episode::begin(pool);
    let mut gets_on = true;
    while pool.wants_watching(&state) {
        let taken = pool.queue.taken();
        let patience = match !gets_on && state.are_all_taken() {
            true => {
                // The thread that takes the next call then sees that it must call the watcher.
                pool.begin_round(&mut state);
                state.watcher = Watcher::Full;
                episode.next()
            }
            false => Some(PATIENCE),
        };
        state = pool.await_call(state, patience);
        state.watcher = Watcher::Looking;
        if std::mem::take(&mut state.was_free) {
            episode = Episode::begin(pool);
        }
        gets_on = pool.queue.taken() != taken;
        if gets_on {
            episode.move_on(pool);
            continue;
        }
        if episode.is_to_be_reported() && pool.wants_watching(&state) {
            episode.is_reported = true;
            state = report(pool, state);
        }
        if state.are_all_taken() {
            if episode.hangs() {
                pool.set_hangs(true);
                state = use_reserves(pool, state);
            }
        } else if !pool.queue.is_empty() {
            pool.begin_round(&mut state);
            // A thread that has not arrived yet waits for a CPU or the GIL, and another would, too.
            if state.coming == 0 {
                wake(pool.add_thread(&mut state));
            }
        }
    }
    state
}

/// Moves calls that need not wait for those that hang. Later ones go to the reserves at once.
fn use_reserves<'a>(
    pool: &'static Pool,
    mut state: MutexGuard<'a, State>,
) -> MutexGuard<'a, State> {
    let elsewhere = pool.queue.extract(&mut state.back, QueuedCall::in_reserve);
    if elsewhere.is_empty() {
        return state;
    }
    drop(state);
    for (reserve, queued) in elsewhere {
        or_fail(queued, |queued| reserve.post(queued, 0));
    }
    pool.lock()
}

/// Sends `py_calls` what the threads run.
fn report<'a>(pool: &'static Pool, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let (seats, threads, waiting) = (state.seats.clone(), state.threads, pool.queue.len());
    // Callers must not wait for the lock while the message is built.
    drop(state);
    let calls = (seats.iter())
        .filter_map(|seat| Some((seat.request()?, seat.thread)))
        .collect();
    reports::threads_taken(threads, waiting, calls);
    pool.lock()
}
