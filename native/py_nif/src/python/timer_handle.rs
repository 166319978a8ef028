//! `TimerHandle`: a handle with a time. What `call_later` and `call_at` answer.

use std::sync::atomic::{AtomicU64, Ordering};

use event_loop::Cancel;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};

use super::collector;
use super::context::HandleContext;
use super::handle::{Call, Handle};
#[cfg(not(Py_GIL_DISABLED))]
use super::handle_pool;
use super::loop_class::Loop;

#[pyclass(extends = Handle, frozen, module = "erlang_loop._native")]
pub struct TimerHandle {
    /// The bits of an `f64`. Only changed with the GIL, before anybody has the handle; atomic
    /// because it is used again (`handle_pool`). Relaxed: the GIL orders it.
    when: AtomicU64,
}

impl TimerHandle {
    /// A timer for the heap. The collector does not look at it before it settles there.
    pub fn build(
        owner: &Bound<'_, Loop>,
        call: Call,
        context: Option<Bound<'_, PyAny>>,
        when: f64,
    ) -> PyResult<Py<TimerHandle>> {
        let py = owner.py();
        let context = HandleContext::new(py, context, true)?;
        #[cfg(not(Py_GIL_DISABLED))]
        if !owner.get().debug.get(py) {
            if let Some(used) = handle_pool::take::<TimerHandle>(py) {
                let handle = used.bind(py).as_super().get();
                handle.use_again(owner, call, context, true);
                handle.set_scheduled(true);
                used.get().when.store(when.to_bits(), Ordering::Relaxed);
                return Ok(used);
            }
        }
        let handle = Handle::build_in(owner, call, context, true)?;
        handle.set_scheduled(true);
        let timer = TimerHandle {
            when: AtomicU64::new(when.to_bits()),
        };
        let timer = Py::new(py, PyClassInitializer::from(handle).add_subclass(timer))?;
        collector::ignore(&timer);
        Ok(timer)
    }
}

/// A timer in the heap of its loop.
pub struct Scheduled(pub Py<Handle>);

impl Cancel for Scheduled {
    fn is_cancelled(&self) -> bool {
        // A frozen class may be looked at without the GIL, and this flag is atomic.
        self.0.get().is_cancelled()
    }

    /// The heap belongs to a loop, and is only touched attached. Most timers are nobody else's:
    /// those the loop shows to the collector (`loop_traverse`). Others may be part of a cycle.
    fn settles(&self) {
        if !collector::is_only_ours(self.0.as_ptr()) {
            Handle::notice(&self.0);
        }
    }
}

#[pymethods]
impl TimerHandle {
    fn when(&self) -> f64 {
        f64::from_bits(self.when.load(Ordering::Relaxed))
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
            base.get().owner(py)?.get().timer_cancelled(py);
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

    /// As asyncio: by time; equal only if callback, arguments and state are equal too.
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
        let answer = match operation {
            CompareOp::Lt => mine < theirs,
            CompareOp::Gt => mine > theirs,
            CompareOp::Le => mine < theirs || same(slf, other)?,
            CompareOp::Ge => mine > theirs || same(slf, other)?,
            CompareOp::Eq => same(slf, other)?,
            CompareOp::Ne => !same(slf, other)?,
        };
        Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind())
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
