//! `TimerHandle`: a handle with a time. The result of `call_later` and `call_at`.

use event_loop::Cancel;
use pyo3::basic::CompareOp;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};

use super::handle::{Call, Handle};
use crate::asyncio::loop_class::class::Loop;

#[pyclass(extends = Handle, frozen, module = "erlang_loop._native")]
pub struct TimerHandle {
    when: f64,
}

impl TimerHandle {
    /// A timer for the heap.
    pub fn build(
        owner: &Bound<'_, Loop>,
        call: Call,
        context: Option<Bound<'_, PyAny>>,
        when: f64,
    ) -> PyResult<Py<TimerHandle>> {
        let handle = Handle::build(owner, call, context)?;
        handle.set_scheduled(true);
        let timer = PyClassInitializer::from(handle).add_subclass(TimerHandle { when });
        Py::new(owner.py(), timer)
    }
}

/// A timer in the heap of its loop.
pub struct Scheduled(pub Py<Handle>);

impl Scheduled {
    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

impl Cancel for Scheduled {
    fn is_cancelled(&self) -> bool {
        // A frozen class may be read without the GIL, and this flag is atomic.
        self.0.get().is_cancelled()
    }
}

#[pymethods]
impl TimerHandle {
    fn when(&self) -> f64 {
        self.when
    }

    #[getter(_when)]
    fn when_attribute(&self) -> f64 {
        self.when()
    }

    #[getter(_scheduled)]
    fn scheduled(slf: &Bound<'_, Self>) -> bool {
        slf.as_super().get().is_scheduled()
    }

    fn cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super();
        let first = !base.get().is_cancelled();
        Handle::cancel(base)?;
        if first && base.get().is_scheduled() {
            base.get().owner().get().timer_cancelled(py);
        }
        Ok(())
    }

    fn _repr_info<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let base = slf.as_super();
        let info = Handle::_repr_info(base)?;
        let place = if base.get().is_cancelled() { 2 } else { 1 };
        let when = slf.getattr("_when")?.repr()?;
        info.insert(place, format!("when={when}"))?;
        Ok(info)
    }

    /// As `Handle`'s.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyType>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        CLASS
            .import(slf.py(), "asyncio.events", "TimerHandle")
            .cloned()
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
        slf.getattr("_when")?.hash()
    }

    /// As in asyncio: by time; equal only if callback, arguments and state are equal, too.
    fn __richcmp__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        operation: CompareOp,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let Ok(other) = other.cast::<TimerHandle>() else {
            return Ok(py.NotImplemented());
        };
        let (mine, theirs) = (slf.get().when(), other.get().when());
        let result = match operation {
            CompareOp::Lt => mine < theirs,
            CompareOp::Gt => mine > theirs,
            CompareOp::Le => mine < theirs || same(slf, other)?,
            CompareOp::Ge => mine > theirs || same(slf, other)?,
            CompareOp::Eq => same(slf, other)?,
            CompareOp::Ne => !same(slf, other)?,
        };
        Ok(result.into_pyobject(py)?.to_owned().into_any().unbind())
    }
}

fn same(one: &Bound<'_, TimerHandle>, other: &Bound<'_, TimerHandle>) -> PyResult<bool> {
    if one.get().when() != other.get().when()
        || one.as_super().get().is_cancelled() != other.as_super().get().is_cancelled()
    {
        return Ok(false);
    }
    for name in ["_callback", "_args"] {
        if !one.getattr(name)?.eq(other.getattr(name)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}
