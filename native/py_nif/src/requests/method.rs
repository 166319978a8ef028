//! Methods of objects that Erlang has by reference: `py:method/3`, and `py:call/3` of a reference.

use pyo3::prelude::*;
use pyo3::types::PyString;
use rustler::{NifResult, Term};

use super::call::text;
use crate::beam::resource::Ref;
use crate::convert::PythonObject;

pub struct Method {
    object: Ref<PythonObject>,
    /// May contain dots: `chat.completions.create`.
    path: String,
}

impl Method {
    /// `badarg` for a reference that is not of a Python object in this node.
    pub fn decode(object: Term<'_>, name: Term<'_>) -> NifResult<Self> {
        Ok(Method {
            object: object.decode()?,
            path: text(name)?,
        })
    }

    pub fn find<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut found = self.object.object(py);
        for name in self.path.split('.') {
            found = found.getattr(PyString::intern(py, name))?;
        }
        Ok(found)
    }

    /// For reports: `random.Random.randint`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.object.type_name(), self.path)
    }
}
