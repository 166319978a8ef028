//! Arguments, results and exceptions of requests: `convert`, with the names that its errors show.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::convert;
use crate::tasks::Plain;

pub fn arguments<'py>(py: Python<'py>, list: Term<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let items = || list.decode::<rustler::ListIterator<'_>>();
    let values: Option<Vec<_>> = items().ok().and_then(|items| {
        items
            .map(|item| convert::to_python(py, item).ok())
            .collect()
    });
    match values {
        Some(values) => PyTuple::new(py, values),
        None => whole_list(py, list),
    }
}

pub fn plain<'py>(py: Python<'py>, value: Plain) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Plain::Atom(atom) => {
            convert::atoms::to_python(py, atom).map_err(|error| error.within("args"))?
        }
        Plain::Integer(number) => number.into_pyobject(py)?.into_any(),
        Plain::Float(number) => number.into_pyobject(py)?.into_any(),
    })
}

/// As one value, so that an error says where in the list it is.
#[cold]
fn whole_list<'py>(py: Python<'py>, list: Term<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let list = convert::to_python(py, list).map_err(|error| error.within("args"))?;
    match list.cast::<PyList>() {
        Ok(list) => Ok(list.to_tuple()),
        // No term that is a list becomes anything else; should it, it is a sequence.
        Err(_) => list
            .try_iter()?
            .collect::<PyResult<Vec<_>>>()
            .and_then(|all| PyTuple::new(py, all)),
    }
}

/// Keyword arguments or variables, whose names are atoms or binaries.
pub fn keywords<'py>(py: Python<'py>, map: Term<'_>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(pairs) = rustler::MapIterator::new(map) else {
        return Ok(None);
    };
    let mut keywords = None;
    for (key, value) in pairs {
        let name = match key.atom_to_string() {
            Ok(name) => name,
            Err(_) => key
                .decode::<&str>()
                .map(str::to_owned)
                .map_err(|_| PyTypeError::new_err("keywords must be atoms or binaries"))?,
        };
        let value = convert::to_python(py, value).map_err(|error| error.within("kwargs"))?;
        let keywords = keywords.get_or_insert_with(|| PyDict::new(py));
        if keywords.contains(&name)? {
            let text = format!("two keywords are named '{name}': an atom and a binary");
            return Err(PyTypeError::new_err(text));
        }
        keywords.set_item(name, value)?;
    }
    Ok(keywords)
}

/// `{ok, Value}`; `{error, Exception}` also if the value cannot cross.
pub fn result<'a>(env: Env<'a>, outcome: &PyResult<Bound<'_, PyAny>>, py: Python<'_>) -> Term<'a> {
    let error = match outcome {
        Ok(value) => match convert::to_term(env, value) {
            Ok(term) => return (atoms::ok(), term).encode(env),
            Err(error) => &error.within("result").into(),
        },
        Err(error) => error,
    };
    (atoms::error(), exception(env, py, error)).encode(env)
}

/// An item of a stream.
pub fn item<'a>(env: Env<'a>, item: &Bound<'_, PyAny>) -> PyResult<Term<'a>> {
    Ok(convert::to_term(env, item).map_err(|error| error.within("item"))?)
}

/// An exception as data.
pub fn exception<'a>(env: Env<'a>, py: Python<'_>, error: &PyErr) -> Term<'a> {
    convert::exception::to_term(env, py, error)
}
