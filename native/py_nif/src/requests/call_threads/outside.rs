//! Call threads that wait for Erlang (`erlang.call`): they do not count, and another thread takes
//! the place of each, because the reply may need one.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::pool::{Pool, Seat, wake};
use crate::beam::resource::Ref;
use crate::requests::request::Request;

/// How many there are, and the maximum. Relaxed: counts that order nothing.
static OUTSIDE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(1000);

#[derive(Clone)]
struct CallThread {
    pool: &'static Pool,
    seat: Arc<Seat>,
}

thread_local! {
    /// Set while this is a call thread that counts. (A finalizer that runs while it is outside may
    /// call Erlang, too.)
    static COUNTS: RefCell<Option<CallThread>> = const { RefCell::new(None) };
}

pub fn this_is_a_call_thread(pool: &'static Pool, seat: Arc<Seat>) {
    COUNTS.set(Some(CallThread { pool, seat }));
}

pub fn limit(max: usize) {
    LIMIT.store(max, Ordering::Relaxed);
}

/// A call thread is outside as long as this lives.
pub struct Outside {
    thread: CallThread,
    /// The request that it runs.
    request: Option<Ref<Request>>,
}

/// This thread is about to wait for Erlang. `None` unless it is a call thread that is not outside
/// already; raises if too many wait.
pub fn outside() -> PyResult<Option<Outside>> {
    let Some(thread) = COUNTS.take() else {
        return Ok(None);
    };
    let before = OUTSIDE.fetch_add(1, Ordering::Relaxed);
    if before >= LIMIT.load(Ordering::Relaxed) {
        OUTSIDE.fetch_sub(1, Ordering::Relaxed);
        COUNTS.set(Some(thread));
        return Err(PyRuntimeError::new_err(format!(
            "call_nesting limit reached: {before} Python calls are already waiting for Erlang. Is \
             there unbounded mutual recursion?"
        )));
    }
    let CallThread { pool, seat } = &thread;
    let request = seat.replace(None);
    let mut state = pool.lock();
    state.threads -= 1;
    if seat.round() == pool.round() {
        state.active -= 1;
    }
    let sleeper = match pool.queue.is_empty() {
        true => None,
        false => pool.attend_to_queue(&mut state),
    };
    drop(state);
    wake(sleeper);
    Ok(Some(Outside { thread, request }))
}

impl Drop for Outside {
    fn drop(&mut self) {
        let CallThread { pool, seat } = &self.thread;
        OUTSIDE.fetch_sub(1, Ordering::Relaxed);
        seat.replace(self.request.take());
        let mut state = pool.lock();
        state.threads += 1;
        state.active += 1;
        seat.set_round(pool.round());
        drop(state);
        COUNTS.set(Some(self.thread.clone()));
    }
}
