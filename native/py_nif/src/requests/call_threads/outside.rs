//! Call threads that wait for Erlang (`erlang.call`): they do not count, and another thread takes
//! the place of each, because the reply may need one.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::call_thread::{CallThread, Wake};
use super::pool::Pool;

/// How many there are, and the maximum. Relaxed: counts that order nothing.
static OUTSIDE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(1000);

#[derive(Clone)]
struct Counted {
    pool: &'static Pool,
    thread: Arc<CallThread>,
}

thread_local! {
    /// Set while this is a call thread that counts. (A finalizer that runs while it is outside may
    /// call Erlang, too.)
    static COUNTS: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

pub fn this_is_a_call_thread(pool: &'static Pool, thread: Arc<CallThread>) {
    COUNTS.set(Some(Counted { pool, thread }));
}

pub fn limit(max: usize) {
    LIMIT.store(max, Ordering::Relaxed);
}

/// A call thread is outside as long as this lives.
pub struct Outside {
    counted: Counted,
    /// What an interrupt is for.
    number: u64,
}

/// This thread is about to wait for Erlang; `wake` ends the wait early. `None` unless it is a call
/// thread that is not outside already; raises if too many wait.
pub fn outside(py: Python<'_>, wake: Wake) -> PyResult<Option<Outside>> {
    let Some(counted) = COUNTS.take() else {
        return Ok(None);
    };
    let number = match counted.thread.interrupts.protect(py) {
        Ok(number) => number,
        Err(error) => {
            COUNTS.set(Some(counted));
            return Err(error);
        }
    };
    let before = OUTSIDE.fetch_add(1, Ordering::Relaxed);
    if before >= LIMIT.load(Ordering::Relaxed) {
        OUTSIDE.fetch_sub(1, Ordering::Relaxed);
        let resumed = counted.thread.interrupts.resume(py, number);
        COUNTS.set(Some(counted));
        resumed?;
        return Err(PyRuntimeError::new_err(format!(
            "call_nesting limit reached: {before} Python calls are already waiting for Erlang. Is \
             there unbounded mutual recursion?"
        )));
    }
    let Counted { pool, thread } = &counted;
    pool.lock().threads -= 1;
    // There is room for another.
    pool.set_hangs(false);
    if thread.go_outside(wake) {
        pool.remove_ready();
    }
    if !pool.is_empty() {
        pool.attend_to_queue();
    }
    Ok(Some(Outside { counted, number }))
}

impl Outside {
    /// Whether the wait must end because the call was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.counted.thread.interrupts.is_due(self.number)
    }

    /// The wait is over. Raises if the call was interrupted.
    pub fn end(self, py: Python<'_>) -> PyResult<()> {
        let (thread, number) = (self.counted.thread.clone(), self.number);
        drop(self);
        thread.interrupts.resume(py, number)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let Counted { pool, thread } = &self.counted;
        OUTSIDE.fetch_sub(1, Ordering::Relaxed);
        let mut state = pool.lock();
        state.threads += 1;
        pool.note_progress(&mut state);
        drop(state);
        thread.come_back();
        COUNTS.set(Some(self.counted.clone()));
    }
}
