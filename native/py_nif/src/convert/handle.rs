//! Python objects that Erlang has by reference: the option `return => ref`, and `erlang.Handle(obj)`.

use pyo3::prelude::*;
use rustler::{Encoder, Env, Term};

use super::exception::class_name;

use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::cpython::objects::release::release;

/// A Python object in a resource: Erlang has it as a reference, which keeps it alive.
pub struct PythonObject {
    object: Py<PyAny>,
    /// `module.qualname` of its type when the reference was created: for texts that are written
    /// without the GIL.
    type_name: Box<str>,
}

impl PythonObject {
    /// A reference that Erlang receives.
    pub fn refer(value: &Bound<'_, PyAny>) -> Ref<Self> {
        Ref::new(PythonObject {
            object: value.clone().unbind(),
            type_name: class_name(value).into(),
        })
    }

    pub fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.object.bind(py).clone()
    }

    pub fn type_name(&self) -> &str {
        &self.type_name
    }
}

impl Resource for PythonObject {
    const NAME: &'static std::ffi::CStr = c"python_object";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn destroy(self, _sender: Sender<'_>) {
        release(self.object);
    }
}

/// `Handle(obj)`: Erlang receives it as a reference; when that comes back, it becomes `obj` again.
#[pyclass(frozen, name = "Handle", module = "erlang")]
pub struct ObjectHandle(Ref<PythonObject>);

#[pymethods]
impl ObjectHandle {
    #[new]
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        super::in_node()?;
        Ok(ObjectHandle(PythonObject::refer(value)))
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.0.object(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Handle({})", self.0.object(py).repr()?))
    }
}

impl ObjectHandle {
    pub fn in_env<'a>(&self, env: Env<'a>) -> Term<'a> {
        self.0.encode(env)
    }
}

/// The object of a reference, if it is one to a Python object of this node.
pub fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> Option<Bound<'py, PyAny>> {
    let object = term.decode::<Ref<PythonObject>>().ok()?;
    Some(object.object(py))
}
