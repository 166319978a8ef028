//! The library's errors as Python exceptions.

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::error::Error;

/// The object's `repr()` for a report; a placeholder if that raises.
pub fn shown(object: &Bound<'_, PyAny>) -> String {
    match object.repr() {
        Ok(text) => text.to_string(),
        Err(error) => {
            let class =
                |object: &Bound<'_, PyAny>| object.get_type().name().map(|it| it.to_string());
            let (of, why) = (class(object), class(error.value(object.py())));
            let unknown = |_| "unknown".to_owned();
            format!(
                "<{} object, whose repr() raised {}>",
                of.unwrap_or_else(unknown),
                why.unwrap_or_else(unknown)
            )
        }
    }
}

pub fn raised(error: Error) -> PyErr {
    match &error {
        Error::Core(core) => match core.errno() {
            Some(errno) => os_error(errno),
            None => PyRuntimeError::new_err(error.to_string()),
        },
        Error::Closed => PyRuntimeError::new_err("Event loop is closed"),
        // Only loops without Python return it.
        Error::Callbacks => PyRuntimeError::new_err(error.to_string()),
        Error::Python(text) => PyRuntimeError::new_err(text.clone()),
    }
}

/// `OSError` with errno and text: Python chooses the matching subclass.
pub fn os_error(errno: i32) -> PyErr {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    // Rust appends " (os error N)".
    let text = text
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned();
    PyOSError::new_err((errno, text))
}
