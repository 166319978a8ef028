//! The contexts (`contextvars`) in which the tasks of callers are made: each is the loop's own as its
//! init code left it, with who asked (`origin`) in it. The same processes ask again and again, and to
//! make one takes an eighth of the time of a coroutine that does little, so they are kept.

use std::sync::Arc;

use event_loop::NumberMap;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use super::loop_class::Loop;
use super::{context, origin};
use crate::output::Origin;

/// So many are kept; after that it begins anew.
const MOST: usize = 1024;

#[derive(Default)]
pub struct Callers {
    /// What all are copies of. `None`: the loop's init code runs.
    base: Option<Py<PyAny>>,
    /// By the number of the caller.
    known: NumberMap<(Arc<Origin>, Py<PyAny>)>,
}

impl Callers {
    /// Of a loop whose own context is `own`.
    pub fn of(py: Python<'_>, own: &Py<PyAny>) -> PyResult<Self> {
        Ok(Callers {
            base: Some(own.call_method0(py, "copy")?),
            known: NumberMap::default(),
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

/// Runs `body`, which makes a task that copies its context, as asked for by `origin`.
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
    // Variables of contexts may have finalizers, which run Python code.
    drop(replaced);
    Ok(made)
}
