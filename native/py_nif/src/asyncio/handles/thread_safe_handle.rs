//! The result of `call_soon_threadsafe` from Python 3.14 on: a handle with a lock, as in asyncio.
//! Cancelling it from another thread waits for a running callback; afterwards it either has run to
//! its end or never will.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::handle::Handle;

#[pyclass(extends = Handle, frozen, module = "erlang_loop._native")]
pub struct ThreadSafeHandle {
    /// A `threading.RLock`: the callback may cancel its own handle.
    lock: Py<PyAny>,
}

impl ThreadSafeHandle {
    /// As `Handle::new`.
    pub fn build(py: Python<'_>, handle: Handle) -> PyResult<Py<Handle>> {
        static LOCK: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let lock = LOCK.import(py, "_thread", "RLock")?.call0()?.unbind();
        let with_lock =
            PyClassInitializer::from(handle.with_lock()).add_subclass(ThreadSafeHandle { lock });
        Ok(Py::new(py, with_lock)?.into_bound(py).into_super().unbind())
    }

    fn locked<R>(
        slf: &Bound<'_, Self>,
        action: impl FnOnce(&Bound<'_, Handle>) -> PyResult<R>,
    ) -> PyResult<R> {
        let py = slf.py();
        let lock = slf.get().lock.bind(py);
        lock.call_method0(pyo3::intern!(py, "acquire"))?;
        let result = action(slf.as_super());
        lock.call_method0(pyo3::intern!(py, "release"))?;
        result
    }
}

/// Runs the callback of a handle that has a lock.
pub fn run(slf: &Bound<'_, Handle>, keep: bool) -> PyResult<()> {
    let handle = slf.cast::<ThreadSafeHandle>()?;
    ThreadSafeHandle::locked(handle, |handle| Handle::run_unlocked(handle, keep))
}

#[pymethods]
impl ThreadSafeHandle {
    fn cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::locked(slf, Handle::cancel)
    }

    fn cancelled(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::locked(slf, |handle| Ok(handle.get().is_cancelled()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lock)
    }

    /// As `Handle`'s.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS
            .import(slf.py(), "asyncio.events", "_ThreadSafeHandle")
            .cloned()
    }
}
