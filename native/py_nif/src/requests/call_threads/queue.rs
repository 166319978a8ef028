//! The calls that wait. Callers add to the back, under the pool's lock. A thread moves several at a
//! time to the front, which has its own lock: so callers and threads rarely contend for one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::QueuedCall;

/// How many calls move to the front at a time.
const BATCH: usize = 64;

/// Guarded by the pool's lock.
pub type Back = VecDeque<QueuedCall>;

pub struct Queue {
    front: Mutex<VecDeque<QueuedCall>>,
    /// The number of calls that wait. Increased under the pool's lock, decreased after a call was
    /// taken: a thread that holds that lock never reads too few. Relaxed: the lock orders it.
    len: AtomicUsize,
    /// How many calls have been taken, and how many have ended. Relaxed: counts that order nothing.
    taken: AtomicU64,
    ended: AtomicU64,
}

impl Queue {
    pub const fn new() -> Self {
        Queue {
            front: Mutex::new(VecDeque::new()),
            len: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    fn front(&self) -> MutexGuard<'_, VecDeque<QueuedCall>> {
        // Consistent also after a panic.
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    pub fn note_ended(&self, one: bool) {
        if one {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn push(&self, back: &mut Back, queued: QueuedCall) {
        back.push_back(queued);
        self.len.fetch_add(1, Ordering::Relaxed);
    }

    /// The job that was added last, unless it was taken.
    pub fn take_back(&self, back: &mut Back) -> Option<QueuedCall> {
        let queued = back.pop_back()?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(queued)
    }

    /// The next call, if there is one in front.
    pub fn take(&self) -> Option<QueuedCall> {
        let queued = self.front().pop_front();
        self.note_taken(queued)
    }

    /// The next call, after more have moved to the front.
    pub fn advance(&self, back: &mut Back) -> Option<QueuedCall> {
        let mut front = self.front();
        // Another thread may have done so meanwhile.
        if front.is_empty() {
            let count = back.len().min(BATCH);
            front.extend(back.drain(..count));
        }
        let queued = front.pop_front();
        drop(front);
        self.note_taken(queued)
    }

    fn note_taken(&self, queued: Option<QueuedCall>) -> Option<QueuedCall> {
        if queued.is_some() {
            self.taken.fetch_add(1, Ordering::Relaxed);
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        queued
    }

    /// Removes the jobs that `choose` accepts.
    pub fn extract<T>(
        &self,
        back: &mut Back,
        choose: impl Fn(QueuedCall) -> Result<T, QueuedCall>,
    ) -> Vec<T> {
        let mut front = self.front();
        let mut chosen = Vec::new();
        for queued in front.drain(..).chain(std::mem::take(back)) {
            match choose(queued) {
                Ok(one) => chosen.push(one),
                Err(queued) => back.push_back(queued),
            }
        }
        drop(front);
        self.len.fetch_sub(chosen.len(), Ordering::Relaxed);
        chosen
    }
}
