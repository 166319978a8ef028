//! Call threads that wait for Erlang (`erlang.call`): they do not count, and another takes the
//! place of each, because what they wait for may need a thread.

use std::cell::Cell;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::{pool, sleepers};

thread_local! {
    /// It is a call thread, and counts as one: a finalizer that runs while it is outside may ask
    /// Erlang, too.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn this_is_a_call_thread() {
    COUNTS.set(true);
}

/// A call thread is outside as long as this lives.
pub struct Outside(());

/// What runs on this thread waits for Erlang. Nothing to do unless it is a call thread, and not
/// outside already; an error if too many of them wait.
pub fn outside() -> PyResult<Option<Outside>> {
    if !COUNTS.get() {
        return Ok(None);
    }
    let mut pool = pool();
    if pool.outside >= pool.max_outside {
        return Err(PyRuntimeError::new_err(format!(
            "{} calls of Python wait for Erlang, as many as may (call_nesting): do Python and \
             Erlang call each other without end?",
            pool.outside
        )));
    }
    COUNTS.set(false);
    pool.workers -= 1;
    pool.outside += 1;
    if !pool.queue.is_empty() {
        if pool.idle > 0 {
            sleepers::wake(pool.tell_idle());
        } else {
            // Without memory for another thread calls wait until this one is back.
            let _ = pool.ensure_worker();
        }
        pool.have_watched();
    }
    Ok(Some(Outside(())))
}

impl Drop for Outside {
    fn drop(&mut self) {
        COUNTS.set(true);
        let mut pool = pool();
        pool.outside -= 1;
        pool.workers += 1;
    }
}
