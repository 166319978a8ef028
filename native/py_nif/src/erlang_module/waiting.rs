//! Python threads that wait for Erlang: without the GIL, and with a look for signals on the main
//! thread.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::calls;
use crate::convert;
use crate::cpython::process::main_thread;
use crate::requests::call_threads;

/// Signal handlers run on the main thread, and nothing else wakes it for them.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);

/// Calls `wait` until it returns `true`, or for `timeout` seconds; returns `false` after a timeout.
pub fn wait(
    py: Python<'_>,
    timeout: Option<f64>,
    wait: impl Fn(Option<Instant>) -> bool + Sync,
) -> PyResult<bool> {
    convert::in_node()?;
    let timeout = calls::seconds(timeout)?;
    let deadline = timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    // While a call thread waits for Erlang, another takes its place: Erlang may need it.
    let _outside = call_threads::outside()?;
    let main = main_thread::is_this();
    loop {
        let look = main.then(|| Instant::now() + LOOK_FOR_SIGNALS);
        let until = [deadline, look].into_iter().flatten().min();
        if py.detach(|| wait(until)) {
            return Ok(true);
        }
        py.check_signals()?;
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(false);
        }
    }
}
