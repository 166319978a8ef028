//! Arguments, results and exceptions of requests.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use rustler::{Encoder, Env, Term};

use crate::atoms;

pub fn arguments<'py>(py: Python<'py>, list: Term<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let list = to_python(py, list)?;
    Ok(list.cast_into::<PyList>()?.to_tuple())
}

/// Keyword arguments or variables: a map whose keys are atoms, binaries or strings.
pub fn keywords<'py>(py: Python<'py>, map: Term<'_>) -> PyResult<Option<Bound<'py, PyDict>>> {
    if map.map_size().unwrap_or(0) == 0 {
        return Ok(None);
    }
    let map = to_python(py, map)?.cast_into::<PyDict>()?;
    let keywords = PyDict::new(py);
    for (key, value) in map {
        keywords.set_item(key.str()?, value)?;
    }
    Ok(Some(keywords))
}

/// `{ok, Value}`; `{error, Exception}` if the value cannot cross.
pub fn result<'a>(env: Env<'a>, outcome: &PyResult<Bound<'_, PyAny>>, py: Python<'_>) -> Term<'a> {
    match outcome {
        Ok(value) => match to_term(env, value) {
            Ok(term) => (atoms::ok(), term).encode(env),
            Err(error) => (atoms::error(), exception(env, py, &error)).encode(env),
        },
        Err(error) => (atoms::error(), exception(env, py, error)).encode(env),
    }
}

/// An exception as data.
pub fn exception<'a>(env: Env<'a>, py: Python<'_>, error: &PyErr) -> Term<'a> {
    let kind = error.get_type(py).name().map(|n| n.to_string()).unwrap_or_default();
    let text = error.value(py).to_string();
    Term::map_from_pairs(env, &[(atoms::type_().encode(env), kind.encode(env)), (atoms::message().encode(env), text.encode(env))])
        .unwrap_or_else(|_| text.encode(env))
}

fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(number) = term.decode::<i64>() {
        return Ok(number.into_pyobject(py)?.into_any());
    }
    if let Ok(number) = term.decode::<f64>() {
        return Ok(PyFloat::new(py, number).into_any());
    }
    if term.is_binary() {
        let bytes: rustler::Binary = term.decode().expect("binary");
        return Ok(PyString::new(py, &String::from_utf8_lossy(bytes.as_slice())).into_any());
    }
    if term.is_atom() {
        let name = term.atom_to_string().unwrap_or_default();
        return Ok(match name.as_str() {
            "true" => PyBool::new(py, true).to_owned().into_any(),
            "false" => PyBool::new(py, false).to_owned().into_any(),
            "none" | "undefined" | "nil" => py.None().into_bound(py),
            _ => PyString::new(py, &name).into_any(),
        });
    }
    if let Ok(items) = term.decode::<Vec<Term<'_>>>() {
        let list = PyList::empty(py);
        for item in items {
            list.append(to_python(py, item)?)?;
        }
        return Ok(list.into_any());
    }
    if let Some(map) = rustler::MapIterator::new(term) {
        let dict = PyDict::new(py);
        for (key, value) in map {
            dict.set_item(to_python(py, key)?, to_python(py, value)?)?;
        }
        return Ok(dict.into_any());
    }
    Err(pyo3::exceptions::PyTypeError::new_err(format!("cannot convert {term:?}")))
}

fn to_term<'a>(env: Env<'a>, value: &Bound<'_, PyAny>) -> PyResult<Term<'a>> {
    if value.is_none() {
        return Ok(atoms::none().encode(env));
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(value.is_true().encode(env));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract::<i64>()?.encode(env));
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(value.value().encode(env));
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(value.to_str()?.encode(env));
    }
    if let Ok(value) = value.cast::<PyBytes>() {
        return Ok((atoms::bytes(), value.as_bytes().to_vec()).encode(env));
    }
    if let Ok(value) = value.cast::<PyList>() {
        let items: PyResult<Vec<Term<'a>>> = value.iter().map(|item| to_term(env, &item)).collect();
        return Ok(items?.encode(env));
    }
    if let Ok(value) = value.cast::<PyTuple>() {
        let items: PyResult<Vec<Term<'a>>> = value.iter().map(|item| to_term(env, &item)).collect();
        return Ok(rustler::types::tuple::make_tuple(env, &items?));
    }
    if let Ok(value) = value.cast::<PyDict>() {
        let mut pairs = Vec::new();
        for (key, value) in value {
            pairs.push((to_term(env, &key)?, to_term(env, &value)?));
        }
        return Ok(Term::map_from_pairs(env, &pairs).expect("terms"));
    }
    Err(pyo3::exceptions::PyTypeError::new_err(format!("cannot convert {}", value.get_type().repr()?)))
}
