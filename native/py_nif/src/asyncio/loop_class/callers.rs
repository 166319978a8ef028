//! The contexts (`contextvars`) in which callers' tasks are created. Each is the loop's own context
//! as its init code left it, plus the caller (`origin`). The same processes make requests
//! repeatedly, and creating a context takes an eighth of the time of a short coroutine, so contexts
//! are kept.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::class::Loop;
use crate::asyncio::origin;
use crate::cpython::context;
use crate::loops::Origin;

/// How many are kept; the cache is emptied when it is full.
const MOST: usize = 1024;

#[derive(Default)]
pub struct Callers {
    /// The context that is copied. `None`: the loop's init code runs.
    base: Option<Py<PyAny>>,
    /// By the number of the caller.
    known: FxHashMap<u64, (Arc<Origin>, Py<PyAny>)>,
}

impl Callers {
    /// For a loop whose own context is `own`.
    pub fn of(py: Python<'_>, own: &Py<PyAny>) -> PyResult<Self> {
        Ok(Callers {
            base: Some(own.call_method0(py, "copy")?),
            known: FxHashMap::default(),
        })
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.base)?;
        self.known
            .values()
            .try_for_each(|(_, context)| visit.call(context))
    }

    fn find(&self, py: Python<'_>, origin: &Arc<Origin>) -> Option<Py<PyAny>> {
        let (known, context) = self.known.get(&origin.caller_number)?;
        let same = Arc::ptr_eq(known, origin) || known.is_same(origin);
        same.then(|| context.clone_ref(py))
    }
}

/// Runs `body`, which creates a task that copies its context, on behalf of `origin`.
pub fn within<R>(
    slf: &Bound<'_, Loop>,
    origin: &Arc<Origin>,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    let py = slf.py();
    let known = slf
        .get()
        .callers
        .with(py, |callers| callers.find(py, origin));
    let context = known.map_or_else(|| make(slf, origin), Ok)?;
    context::within(py, &context, body)
}

fn make(slf: &Bound<'_, Loop>, origin: &Arc<Origin>) -> PyResult<Py<PyAny>> {
    let py = slf.py();
    let callers = &slf.get().callers;
    let base = callers.with(py, |callers| {
        callers.base.as_ref().map(|base| base.clone_ref(py))
    });
    let made = match base {
        Some(base) => base.call_method0(py, "copy")?,
        None => context::copy_current(py)?,
    };
    context::within(py, &made, || origin::set(py, origin))?;
    let replaced = callers.with(py, |callers| {
        let full = callers.known.len() >= MOST;
        let before = full.then(|| std::mem::take(&mut callers.known));
        let entry = (origin.clone(), made.clone_ref(py));
        (before, callers.known.insert(origin.caller_number, entry))
    });
    // Context variables may have finalizers, which run Python code.
    drop(replaced);
    Ok(made)
}
