//! `module.name`, for names that are asked for all the time: in a third of the instructions, as the
//! module's class is not searched for it first.

use pyo3::prelude::*;
use pyo3::types::{PyModule, PyString};

/// As `getattr`: a module may answer names that are not in it, and an object that only stands for
/// one has its own ways.
pub fn module_attribute<'py>(
    module: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let found = match module.cast_exact::<PyModule>() {
        Ok(module) => module.dict().get_item(name)?,
        Err(_) => None,
    };
    match found {
        Some(found) => Ok(found),
        None => module.getattr(name),
    }
}
