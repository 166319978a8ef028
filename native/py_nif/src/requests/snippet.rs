//! Code that arrives as text: `py:eval` and `py:exec`. `python/erlang/snippets.py` compiles it.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::{PySyntaxError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction};
use rustler::Term;

use crate::beam::resource::Ref;
use crate::convert::{PythonObject, ValueOptions, named};

pub struct Snippet {
    pub source: String,
    /// `py:eval`; code of `py:exec` has no value.
    pub wants_value: bool,
    pub options: SnippetOptions,
}

/// Options of the caller.
#[derive(Default)]
pub struct SnippetOptions {
    /// A module. Default: the one that all callers share.
    pub namespace: Option<Ref<PythonObject>>,
    /// Where the code stands. Default: a file name of its own.
    pub file: Option<String>,
    pub line: Option<u32>,
}

impl SnippetOptions {
    pub fn is_empty(&self) -> bool {
        self.namespace.is_none() && self.file.is_none() && self.line.is_none()
    }
}

impl Snippet {
    /// Runs the code. The value is a coroutine if the code has an `await` outside of functions.
    pub fn run<'py>(
        &self,
        py: Python<'py>,
        variables: Option<Term<'_>>,
        options: ValueOptions,
    ) -> PyResult<Bound<'py, PyAny>> {
        static PARTS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let variables =
            variables.map(|variables| named::keywords(py, "variables", variables, options));
        let variables = variables.transpose()?.flatten();
        let names: Vec<_> = variables.iter().flat_map(|names| names.keys()).collect();
        let parts = PARTS.import(py, "erlang.snippets", "parts")?;
        let parts = parts.call1((
            &self.source,
            self.file(),
            self.options.line.unwrap_or(1),
            self.wants_value,
            self.globals(py)?,
            names,
        ));
        let parts = parts.or_else(|error| Err(without_traceback(py, error)?))?;
        let mut value = py.None().into_bound(py);
        for part in parts.try_iter()? {
            value = part?
                .cast_into::<PyFunction>()?
                .call((), variables.as_ref())?;
        }
        Ok(value)
    }

    /// Tracebacks show its lines.
    fn file(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        match &self.options.file {
            Some(file) => file.clone(),
            None => {
                let kind = if self.wants_value { "eval" } else { "exec" };
                // Relaxed: only uniqueness matters.
                format!("<py:{kind} {}>", NEXT.fetch_add(1, Ordering::Relaxed))
            }
        }
    }

    fn globals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(namespace) = &self.options.namespace else {
            return shell(py);
        };
        match namespace.object(py).cast::<PyModule>() {
            Ok(module) => Ok(module.dict()),
            Err(_) => {
                let class = namespace.type_name();
                let text = format!("code runs in a namespace or a module, not in a {class}");
                Err(PyTypeError::new_err(text))
            }
        }
    }

    /// For reports: the beginning of the code.
    pub fn name(&self) -> String {
        self.source.chars().take(60).collect()
    }
}

/// A syntax error is in the code; the functions that compile it do not matter.
fn without_traceback(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    if !error.is_instance_of::<PySyntaxError>(py) {
        return Ok(error);
    }
    let value = error.into_value(py).into_bound(py);
    value.setattr("__traceback__", py.None())?;
    Ok(PyErr::from_value(value.into_any()))
}

/// The names of `erlang_loop_shell`, which callers share who name no namespace.
fn shell(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    static SHELL: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let dict = SHELL.get_or_try_init(py, || -> PyResult<Py<PyDict>> {
        let module = PyModule::new(py, "erlang_loop_shell")?;
        py.import("sys")?
            .getattr("modules")?
            .set_item("erlang_loop_shell", &module)?;
        module.setattr("__builtins__", py.import("builtins")?)?;
        Ok(module.dict().unbind())
    })?;
    Ok(dict.bind(py).clone())
}
