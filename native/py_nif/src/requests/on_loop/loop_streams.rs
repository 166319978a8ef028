//! Streams of asynchronous generators: `erlang_loop/streams.py` iterates, in one asyncio task, and
//! passes the items to the [`Sink`] of its stream.

use std::sync::{Arc, Weak};

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::loop_requests;
use crate::beam::resource::Ref;
use crate::convert::named;
use crate::cpython::cells::gil_cell::GilCell;
use crate::loops::NativeLoop;
use crate::requests::request::{Next, Request};

/// How many items are sent before other callbacks of the loop run.
const BURST: u32 = 100;

/// The coroutine that iterates over `source`, and its sink.
pub fn drive<'py>(
    native: &Arc<NativeLoop>,
    request: &Ref<Request>,
    source: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Py<Sink>)> {
    static DRIVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = source.py();
    let sink = Py::new(
        py,
        Sink {
            request: request.clone(),
            native: Arc::downgrade(native),
            cancelled: GilCell::default(),
            demanded: GilCell::default(),
            burst: GilCell::default(),
        },
    )?;
    let drive = DRIVE.import(py, "erlang_loop.streams", "drive")?;
    Ok((drive.call1((source, &sink))?, sink))
}

/// The destination of the items of a stream, as `streams.Sink` describes it.
#[pyclass(frozen, module = "erlang_loop._native")]
pub struct Sink {
    request: Ref<Request>,
    native: Weak<NativeLoop>,
    /// Whether the asyncio task was cancelled because the stream has no consumer any more.
    cancelled: GilCell<bool>,
    /// A future that the next demand completes.
    demanded: GilCell<Option<Py<PyAny>>>,
    /// Items since the last pause.
    burst: GilCell<u32>,
}

#[pymethods]
impl Sink {
    /// Whether an item is wanted.
    fn is_wanted(&self, py: Python<'_>) -> PyResult<bool> {
        self.check(py, self.request.next())
    }

    /// Sends an item for which there was demand. False: pause before the next one.
    fn send(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = item.py();
        let options = self.request.result;
        let next = self
            .request
            .send_item(|env| named::item(env, item, options))?;
        let burst = self.burst.get(py) + 1;
        self.burst.set(py, burst % BURST);
        Ok(self.check(py, next)? && burst < BURST)
    }

    /// Returns `future`, which is completed when there is demand.
    fn wait<'py>(&self, future: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = future.py();
        drop(self.demanded.replace(py, Some(future.clone().unbind())));
        if self.check(py, self.request.wait_for_demand())? {
            self.demanded(py)?;
        }
        Ok(future)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut result = Ok(());
        self.demanded.visit(|future| result = visit.call(future));
        result
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.demanded.take(py));
    }
}

impl Sink {
    /// There is demand.
    pub fn demanded(&self, py: Python<'_>) -> PyResult<()> {
        let Some(future) = self.demanded.take(py) else {
            return Ok(());
        };
        let future = future.bind(py);
        // It may have been cancelled.
        match future.call_method0(intern!(py, "done"))?.is_truthy()? {
            true => Ok(()),
            false => future
                .call_method1(intern!(py, "set_result"), (py.None(),))
                .map(drop),
        }
    }

    /// The asyncio task is being cancelled.
    pub fn cancelled(&self, py: Python<'_>) {
        self.cancelled.set(py, true);
    }

    /// A stream without a consumer is about to be cancelled: its task waits for that, and does not
    /// run its finalizers before, so that the cancellation cannot hit one of them. If it was
    /// cancelled and the generator went on regardless, it ends here.
    fn check(&self, py: Python<'_>, next: Next) -> PyResult<bool> {
        let is_cancelled = || {
            let ends = |native: Arc<NativeLoop>| loop_requests::is_ending(&native);
            self.cancelled.get(py) || self.native.upgrade().is_none_or(ends)
        };
        match next {
            Next::Produce => Ok(true),
            Next::Stop if is_cancelled() => Err(CancelledError::new_err(())),
            Next::Wait | Next::Stop => Ok(false),
        }
    }
}
