//! Errors of conversion: why a value cannot cross, and which part of it: `args[2]["x"]: ...`.

use std::fmt::{self, Write};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyString, PyType};

use crate::cpython::process::finalizing;

/// `erlang.ConversionError` in Python; [`super::exception`] converts it for Erlang.
pub struct ConvertError {
    root: &'static str,
    /// From the offending part outwards.
    path: Vec<Step>,
    what: What,
}

enum What {
    /// The value has no equivalent on the other side.
    Refused(String),
    /// Python code that ran during the conversion raised this (an encoder, a property, no memory).
    Raised(PyErr),
    RaisedByDecoder(PyErr),
}

/// One step into a value.
pub enum Step {
    Index(usize),
    /// The value of this key, as text.
    Key(String),
    /// The key itself.
    KeyItself(String),
    Field(String),
    /// Something in a set.
    Member,
}

impl ConvertError {
    pub fn refused(problem: impl Into<String>) -> Self {
        ConvertError {
            root: "value",
            path: Vec::new(),
            what: What::Refused(problem.into()),
        }
    }

    pub fn raised_by_decoder(error: PyErr) -> Self {
        ConvertError {
            what: What::RaisedByDecoder(error),
            ..ConvertError::refused("")
        }
    }

    /// Adds the step that led to the offending part; the innermost step comes first.
    pub fn step(&mut self, step: Step) {
        self.path.push(step);
    }

    /// Names the value as a whole: `args`, `result`, `message`.
    pub fn within(mut self, root: &'static str) -> Self {
        self.root = root;
        self
    }

    fn place(&self) -> String {
        /// How many steps are shown at each end: a path can be as long as values can be deep.
        const SHOWN: usize = 8;
        let mut place = self.root.to_owned();
        let count = self.path.len();
        for (index, step) in self.path.iter().rev().enumerate() {
            if index == SHOWN && count > 2 * SHOWN {
                let _ = write!(place, "[... {} more ...]", count - 2 * SHOWN);
            }
            if index < SHOWN || index >= count - SHOWN.min(count) {
                let _ = write!(place, "{step}");
            }
        }
        place
    }

    fn raised(self, py: Python<'_>) -> PyErr {
        static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let place = self.place();
        match self.what {
            What::Refused(problem) => {
                let class = match ERROR.import(py, "erlang.errors", "ConversionError") {
                    Ok(class) => class,
                    Err(error) => return error,
                };
                PyErr::from_type(class.clone(), (problem, place))
            }
            What::Raised(error) => noted(py, error, format!("while {place} was sent to Erlang")),
            What::RaisedByDecoder(error) => {
                noted(py, error, format!("while {place} was decoded from Erlang"))
            }
        }
    }
}

/// The exception with a note that names the part of the value.
fn noted(py: Python<'_>, error: PyErr, note: String) -> PyErr {
    if error.is_instance_of::<PyException>(py) {
        let _ = error.value(py).call_method1("add_note", (note,));
    }
    error
}

impl From<PyErr> for ConvertError {
    fn from(error: PyErr) -> Self {
        ConvertError {
            root: "value",
            path: Vec::new(),
            what: What::Raised(error),
        }
    }
}

impl From<ConvertError> for PyErr {
    fn from(error: ConvertError) -> Self {
        // Conversion happens attached, so this only reads a thread-local.
        finalizing::attach(|py| error.raised(py))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::KeyItself(key) => write!(f, " key {key}"),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Member => f.write_str(" member"),
        }
    }
}

/// A key as a path shows it. Runs no code of its class.
pub fn key_text(key: &Bound<'_, PyAny>) -> String {
    let plain = key.cast::<PyString>().is_ok() || key.is_exact_instance_of::<PyInt>();
    let text = match plain {
        true => key
            .cast::<PyString>()
            .map(|text| format!("{:?}", text.to_string_lossy()))
            .unwrap_or_else(|_| key.repr().map(|text| text.to_string()).unwrap_or_default()),
        false => type_name(key),
    };
    shortened(text)
}

/// `<class 'module.Name'>`, as Python prints it.
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    let class = value.get_type();
    match class.fully_qualified_name() {
        Ok(name) => format!("<class '{name}'>"),
        Err(_) => "<class ?>".to_owned(),
    }
}

pub fn shortened(mut text: String) -> String {
    const LONGEST: usize = 80;
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}
