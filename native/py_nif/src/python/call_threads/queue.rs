//! The calls that wait. Those who ask put them at the back, under the pool's lock; a worker takes
//! some to the front at once, which has a lock of its own: so the two rarely meet at one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::Job;

/// So many calls go to the front together.
const BATCH: usize = 64;

static FRONT: Mutex<VecDeque<Job>> = Mutex::new(VecDeque::new());
/// How many they are. Written under the front's lock, and Relaxed: who reads it holds the pool's,
/// as those do who add to it. It may find calls that are just being taken, never miss one.
static IN_FRONT: AtomicUsize = AtomicUsize::new(0);

fn front() -> MutexGuard<'static, VecDeque<Job>> {
    // Whole also after a panic.
    FRONT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The next call, if there is one in front.
pub(super) fn take() -> Option<Job> {
    let mut front = front();
    let job = front.pop_front()?;
    IN_FRONT.store(front.len(), Ordering::Relaxed);
    Some(job)
}

/// The pool's part, for who holds its lock.
pub(super) struct Queue {
    back: VecDeque<Job>,
}

impl Queue {
    pub const fn new() -> Self {
        Queue {
            back: VecDeque::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.back.len() + IN_FRONT.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push(&mut self, job: Job) {
        self.back.push_back(job);
    }

    /// The next call, after some more came to the front.
    pub fn advance(&mut self) -> Option<Job> {
        let mut front = front();
        // Another worker may have been here before.
        if front.is_empty() {
            let count = self.back.len().min(BATCH);
            front.extend(self.back.drain(..count));
        }
        let job = front.pop_front();
        IN_FRONT.store(front.len(), Ordering::Relaxed);
        job
    }
}
