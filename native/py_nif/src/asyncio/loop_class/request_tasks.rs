//! The asyncio tasks of a loop that Erlang waits for: `requests::on_loop` creates and ends them.

use std::sync::Arc;

use event_loop::now_ns;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::convert::Pid;
use crate::loops::Origin;

/// A task that Erlang waits for.
pub struct RequestTask {
    /// The asyncio task.
    pub task: Py<PyAny>,
    /// The sink of a stream.
    pub sink: Option<Py<PyAny>>,
    /// The process that asked for it.
    pub origin: Arc<Origin>,
    /// When it began to wait: in nanoseconds, as [`now_ns`].
    pub since: u64,
}

impl RequestTask {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        RequestTask {
            task: self.task.clone_ref(py),
            sink: self.sink.as_ref().map(|sink| sink.clone_ref(py)),
            origin: self.origin.clone(),
            since: self.since,
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.task)?;
        visit.call(&self.sink)
    }
}

/// Each task, the process that asked for it, for how many milliseconds it has waited, and the number
/// of its request.
pub fn listed(
    py: Python<'_>,
    tasks: &FxHashMap<u64, RequestTask>,
) -> Vec<(Py<PyAny>, Pid, u64, u64)> {
    let now = now_ns();
    (tasks.iter())
        .map(|(id, one)| {
            let age = now.saturating_sub(one.since) / 1_000_000;
            (
                one.task.clone_ref(py),
                Pid::of(&one.origin.caller),
                age,
                *id,
            )
        })
        .collect()
}
