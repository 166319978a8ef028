//! Python threads that wait for Erlang: without the GIL, and with a look for signals on the main
//! thread.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use super::calls;
use crate::convert;
use crate::cpython::process::main_thread;
use crate::requests::call_threads;
use crate::requests::call_threads::{Outside, Wake};

/// Signal handlers run on the main thread, and nothing else wakes it for them.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(50);

/// Calls `wait` until it returns `true`, or for `timeout` seconds; returns `false` after a timeout.
/// `wake` makes it check whether it ends early: the call was interrupted, and this raises.
pub fn wait(
    py: Python<'_>,
    timeout: Option<f64>,
    wake: Wake,
    wait: impl Fn(Option<Instant>, &dyn Fn() -> bool) -> bool + Sync,
) -> PyResult<bool> {
    convert::in_node()?;
    let timeout = calls::seconds(timeout)?;
    let deadline = timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    // While a call thread waits for Erlang, another takes its place: Erlang may need it.
    let outside = call_threads::outside(py, wake)?;
    let is_interrupted = || outside.as_ref().is_some_and(Outside::is_interrupted);
    let main = main_thread::is_this();
    let arrived = loop {
        let look = main.then(|| Instant::now() + LOOK_FOR_SIGNALS);
        let until = [deadline, look].into_iter().flatten().min();
        if py.detach(|| wait(until, &is_interrupted)) {
            break true;
        }
        py.check_signals()?;
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            break false;
        }
    };
    outside.map_or(Ok(()), |outside| outside.end(py))?;
    Ok(arrived)
}
