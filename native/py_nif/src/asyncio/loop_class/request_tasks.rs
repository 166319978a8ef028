//! The asyncio tasks of a loop that Erlang waits for: `requests::on_loop` creates and ends them.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

/// A task that Erlang waits for.
pub struct RequestTask {
    /// The asyncio task.
    pub task: Py<PyAny>,
    /// The sink of a stream.
    pub sink: Option<Py<PyAny>>,
}

impl RequestTask {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.task)?;
        visit.call(&self.sink)
    }
}
