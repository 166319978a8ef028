//! What the model checker uses instead of the kernel: a futex and a bell, implemented with loom's
//! mutex and condition variable. `parking` uses it when built with `--cfg loom`.
//!
//! The futex's mutex has the role of the kernel's hash bucket lock: for wakers, comparing the word
//! and falling asleep are one step. Deadlines never pass here, so a lost wake-up is a deadlock,
//! which loom reports.
#![allow(missing_docs)] // the same functions as in `futex` and `eventfd`, where they are described

use super::Waited;
use crate::sync::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};

/// A word to sleep on, as the real one.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    bucket: Mutex<()>,
    sleeper: Condvar,
}

impl Futex {
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            bucket: Mutex::new(()),
            sleeper: Condvar::new(),
        }
    }

    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    pub fn wait(&self, expected: u32, _deadline_ns: Option<u64>) -> Waited {
        let bucket = self.bucket.lock().expect("loom's mutex is never poisoned");
        if self.word.load(Ordering::Relaxed) == expected {
            drop(
                self.sleeper
                    .wait(bucket)
                    .expect("loom's mutex is never poisoned"),
            );
        }
        Waited::Returned
    }

    pub fn wake(&self) {
        let _bucket = self.bucket.lock().expect("loom's mutex is never poisoned");
        self.sleeper.notify_one();
    }
}

/// The eventfd and the epoll wait on it in one: edge-triggered, so a ring is seen once.
#[derive(Debug)]
pub struct Bell {
    rung: Mutex<bool>,
    sleeper: Condvar,
}

impl Bell {
    pub fn new() -> Self {
        Self {
            rung: Mutex::new(false),
            sleeper: Condvar::new(),
        }
    }

    pub fn ring(&self) {
        *self.rung.lock().expect("loom's mutex is never poisoned") = true;
        self.sleeper.notify_one();
    }

    /// The owner's epoll wait: sleeps until rung, and takes the event.
    pub fn wait(&self) {
        let mut rung = self.rung.lock().expect("loom's mutex is never poisoned");
        while !*rung {
            rung = self
                .sleeper
                .wait(rung)
                .expect("loom's mutex is never poisoned");
        }
        *rung = false;
    }
}
