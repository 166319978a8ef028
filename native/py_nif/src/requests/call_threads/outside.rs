//! Call threads that wait for Erlang (`erlang.call`): they do not count, and another thread takes
//! the place of each, because the reply may need one.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::call_thread::CallThread;
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
pub struct Outside(Counted);

/// This thread is about to wait for Erlang. `None` unless it is a call thread that is not outside
/// already; raises if too many wait.
pub fn outside() -> PyResult<Option<Outside>> {
    let Some(counted) = COUNTS.take() else {
        return Ok(None);
    };
    let before = OUTSIDE.fetch_add(1, Ordering::Relaxed);
    if before >= LIMIT.load(Ordering::Relaxed) {
        OUTSIDE.fetch_sub(1, Ordering::Relaxed);
        COUNTS.set(Some(counted));
        return Err(PyRuntimeError::new_err(format!(
            "call_nesting limit reached: {before} Python calls are already waiting for Erlang. Is \
             there unbounded mutual recursion?"
        )));
    }
    let Counted { pool, thread } = &counted;
    pool.lock().threads -= 1;
    // There is room for another.
    pool.set_hangs(false);
    if thread.go_outside() {
        pool.remove_ready();
    }
    if !pool.is_empty() {
        pool.attend_to_queue();
    }
    Ok(Some(Outside(counted)))
}

impl Drop for Outside {
    fn drop(&mut self) {
        let Counted { pool, thread } = &self.0;
        OUTSIDE.fetch_sub(1, Ordering::Relaxed);
        let mut state = pool.lock();
        state.threads += 1;
        pool.note_progress(&mut state);
        drop(state);
        thread.come_back();
        COUNTS.set(Some(self.0.clone()));
    }
}
