//! The library's errors as Python exceptions.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::fd_callbacks::os_error;
use crate::error::Error;

pub fn raised(error: Error) -> PyErr {
    match &error {
        Error::Core(core) => match core.errno() {
            Some(errno) => os_error(errno),
            None => PyRuntimeError::new_err(error.to_string()),
        },
        Error::Closed => PyRuntimeError::new_err("Event loop is closed"),
        // Of loops without Python.
        Error::Callbacks => PyRuntimeError::new_err(error.to_string()),
        Error::Python(text) => PyRuntimeError::new_err(text.clone()),
    }
}
