//! Python objects that Erlang holds and passes back but cannot inspect: `erlang.Handle(obj)`.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use rustler::{Encoder, Env, Term};

use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::cpython::process::{finalizing, main_thread};

/// A Python object in a resource: Erlang has it as a reference.
pub struct PythonObject(Py<PyAny>);

impl PythonObject {
    /// A reference that Erlang receives.
    pub fn refer(value: &Bound<'_, PyAny>) -> Ref<Self> {
        Ref::new(PythonObject(value.clone().unbind()))
    }
}

impl Resource for PythonObject {
    const NAME: &'static std::ffi::CStr = c"python_object";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn destroy(self, _sender: Sender<'_>) {
        release(self.0);
    }
}

/// Drops an object on a thread that does not have the GIL and must not wait for it. PyO3 keeps a
/// list of such objects, which is cleared by the next thread that attaches (or calls into this
/// library). To make this soon even if Python is idle, its main thread is woken.
pub fn release(object: Py<PyAny>) {
    /// The main thread has been woken for this and has not run yet.
    static WOKEN: AtomicBool = AtomicBool::new(false);
    drop(object);
    // The flag is cleared before the list is: a later object wakes the thread again.
    if !WOKEN.swap(true, Ordering::AcqRel) {
        let posted = main_thread::post(|_| {
            WOKEN.store(false, Ordering::Release);
            finalizing::attach(|_| ());
        });
        if !posted {
            // A program occupies the main thread until the process ends: its own calls clear the
            // list.
            WOKEN.store(false, Ordering::Release);
        }
    }
}

/// `Handle(obj)`: Erlang receives it as a reference; when that comes back, it becomes `obj` again.
#[pyclass(frozen, module = "erlang")]
pub struct Handle(Ref<PythonObject>);

#[pymethods]
impl Handle {
    #[new]
    fn new(value: Py<PyAny>) -> PyResult<Self> {
        super::in_node()?;
        Ok(Handle(Ref::new(PythonObject(value))))
    }

    #[getter]
    fn value(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.0.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Handle({})", self.0.0.bind(py).repr()?))
    }
}

impl Handle {
    pub fn in_env<'a>(&self, env: Env<'a>) -> Term<'a> {
        self.0.encode(env)
    }
}

/// The object of a reference, if the reference was created by a [`Handle`].
pub fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> Option<Bound<'py, PyAny>> {
    let object = term.decode::<Ref<PythonObject>>().ok()?;
    Some(object.0.bind(py).clone())
}
