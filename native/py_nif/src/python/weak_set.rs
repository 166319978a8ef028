//! `add` and `discard` of a `weakref.WeakSet`, and what takes the dead out of it, without Python
//! frames. asyncio keeps every task in such a set, and from 3.13 on a server its connections: a fifth
//! of what a short task costs went there (`bench/`: create_task, churn). For `erlang_loop/loop.py`
//! and `transports/server.rs`.

use std::ffi::CStr;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySet, PyWeakrefReference};

use super::fast_method::{self, FastMethod, Given};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    fast_method::install::<Remove>(&py.get_type::<Members>())?;
    fast_method::install::<Discard>(&py.get_type::<Members>())?;
    fast_method::install::<Add>(&py.get_type::<Adder>())?;
    module.add_function(wrap_pyfunction!(change_natively, module)?)
}

/// Replaces the methods of this one set: they do the same.
#[pyfunction]
#[pyo3(signature = (weak_set, /))]
pub fn change_natively(weak_set: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = weak_set.py();
    let members = Members {
        data: weak_set.getattr("data")?.cast_into::<PySet>()?.unbind(),
        guard: Guard::of(weak_set)?,
    };
    let members = Bound::new(py, members)?;
    let discard = members.getattr(intern!(py, "discard"))?;
    let adder = Adder {
        remove: members.getattr(intern!(py, "_remove"))?.unbind(),
        members: members.unbind(),
    };
    let add = Bound::new(py, adder)?.getattr(intern!(py, "add"))?;
    weak_set.setattr(intern!(py, "add"), add)?;
    weak_set.setattr(intern!(py, "discard"), discard)
}

/// What a `WeakSet` is made of: the same objects as long as it lives.
#[pyclass(frozen, module = "erlang_loop._native")]
struct Members {
    /// Of weak references.
    data: Py<PySet>,
    /// None where CPython goes through a copy, as it does in later releases.
    guard: Option<Guard>,
}

/// Keeps the set from changing while somebody goes through it.
struct Guard {
    /// Whoever does.
    iterating: Py<PySet>,
    /// The dead that are still in it.
    pending: Py<PyList>,
}

impl Guard {
    fn of(weak_set: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(iterating) = weak_set.getattr_opt("_iterating")? else {
            return Ok(None);
        };
        let pending = weak_set.getattr("_pending_removals")?;
        Ok(Some(Guard {
            iterating: iterating.cast_into::<PySet>()?.unbind(),
            pending: pending.cast_into::<PyList>()?.unbind(),
        }))
    }
}

/// Not part of [`Members`], which would hold itself by `remove`.
#[pyclass(frozen, module = "erlang_loop._native")]
struct Adder {
    members: Py<Members>,
    /// Each reference calls it when what it refers to dies.
    remove: Py<PyAny>,
}

struct Remove;

impl FastMethod for Remove {
    type Class = Members;
    const NAME: &'static CStr = c"_remove";
    const DOC: &'static CStr =
        c"_remove($self, item)\n--\n\nTakes a dead reference out of the set.";

    fn call<'py>(slf: &Bound<'py, Members>, given: Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let [reference] = given.exactly("_remove", ["item"])?;
        let this = slf.get();
        match &this.guard {
            Some(guard) if !guard.iterating.bind(py).is_empty() => {
                guard.pending.bind(py).append(reference)?;
            }
            _ => this.data.bind(py).discard(reference).map(drop)?,
        }
        Ok(py.None().into_bound(py))
    }
}

struct Discard;

impl FastMethod for Discard {
    type Class = Members;
    const NAME: &'static CStr = c"discard";
    const DOC: &'static CStr = c"discard($self, item)\n--\n\nTakes it out, if it is in the set.";

    fn call<'py>(slf: &Bound<'py, Members>, given: Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let [item] = given.exactly("discard", ["item"])?;
        let this = slf.get();
        this.commit_removals(py)?;
        this.data
            .bind(py)
            .discard(PyWeakrefReference::new(&item)?)?;
        Ok(py.None().into_bound(py))
    }
}

struct Add;

impl FastMethod for Add {
    type Class = Adder;
    const NAME: &'static CStr = c"add";
    const DOC: &'static CStr = c"add($self, item)\n--\n\nHas it in the set as long as it lives.";

    fn call<'py>(slf: &Bound<'py, Adder>, given: Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let [item] = given.exactly("add", ["item"])?;
        let members = slf.get().members.get();
        members.commit_removals(py)?;
        let reference = PyWeakrefReference::new_with(&item, slf.get().remove.bind(py))?;
        members.data.bind(py).add(reference)?;
        Ok(py.None().into_bound(py))
    }
}

impl Members {
    fn commit_removals(&self, py: Python<'_>) -> PyResult<()> {
        let Some(guard) = &self.guard else {
            return Ok(());
        };
        let (pending, data) = (guard.pending.bind(py), self.data.bind(py));
        // What is let go of may add to them.
        while let Some(last) = pending.len().checked_sub(1) {
            let reference = pending.get_item(last)?;
            pending.del_item(last)?;
            data.discard(reference)?;
        }
        Ok(())
    }
}
