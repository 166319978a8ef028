//! The thread that watches the workers, and becomes one when none of them gets on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use event_loop::sys::thread::Thread;

use super::{pool, sleepers, start, worker, Pool, ENDED, WATCH};

/// So long may calls wait for a call that does not end before another thread takes them.
const PATIENCE: Duration = Duration::from_millis(2);

/// Sees to it that there is one.
pub(super) fn ensure() {
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
            let latest = pool.latest.and_then(Watched::begin);
            (pool, _) = WATCH
                .wait_timeout(pool, PATIENCE)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            let gets_on =
                |pool: &Pool| ENDED.load(Ordering::Relaxed) != ended || pool.queue.is_empty();
            if gets_on(&pool) {
                continue;
            }
            // To ask takes a while, in which callers must not wait for the lock.
            drop(pool);
            let is_starved = latest.is_some_and(Watched::wants_a_cpu);
            pool = super::pool();
            if is_starved || gets_on(&pool) {
                continue;
            }
            pool.nobody_gets_on();
            if pool.idle > 0 {
                sleepers::wake(pool.tell_idle());
                continue;
            }
            pool.needed = false;
            break;
        }
        pool.standby = false;
        pool.watching = false;
        pool.workers += 1;
    }
    worker::worker();
}

/// A worker, while the standby's patience lasts.
#[derive(Clone, Copy)]
struct Watched {
    thread: Thread,
    cpu_ns: u64,
}

impl Watched {
    fn begin(thread: Thread) -> Option<Self> {
        let cpu_ns = thread.cpu_ns()?;
        Some(Watched { thread, cpu_ns })
    }

    /// It could go on and has hardly had a CPU: calls wait because the machine has too much to do.
    fn wants_a_cpu(self) -> bool {
        // Less than before: another thread has its number by now.
        let spent = self
            .thread
            .cpu_ns()
            .and_then(|now| now.checked_sub(self.cpu_ns));
        let hardly = spent.is_some_and(|spent| u128::from(spent) < PATIENCE.as_nanos() / 2);
        hardly && self.thread.is_runnable()
    }
}
