//! Conversion of arguments, results and exceptions of requests, with the names that errors show.

use pyo3::exceptions::{PyBaseException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustler::{Encoder, Env, Term};

use super::error::{Step, shortened};
use super::result_options::{ResultOptions, Returned};
use super::value_options::ValueOptions;
use crate::atoms;
use crate::convert;

pub fn arguments<'py>(
    py: Python<'py>,
    list: Term<'_>,
    options: ValueOptions,
) -> PyResult<Bound<'py, PyTuple>> {
    let items = || list.decode::<rustler::ListIterator<'_>>();
    let values: Option<Vec<_>> = items().ok().and_then(|items| {
        items
            .map(|item| convert::argument_to_python(py, item, options).ok())
            .collect()
    });
    match values {
        Some(values) => PyTuple::new(py, values),
        None => whole_list(py, list, options),
    }
}

/// As one value, so that an error gives the position in the list.
#[cold]
fn whole_list<'py>(
    py: Python<'py>,
    list: Term<'_>,
    options: ValueOptions,
) -> PyResult<Bound<'py, PyTuple>> {
    let list =
        convert::argument_to_python(py, list, options).map_err(|error| error.within("args"))?;
    match list.cast::<PyList>() {
        Ok(list) => Ok(list.to_tuple()),
        // A list never converts to anything else; if it did, the value would be a sequence.
        Err(_) => list
            .try_iter()?
            .collect::<PyResult<Vec<_>>>()
            .and_then(|all| PyTuple::new(py, all)),
    }
}

/// Keyword arguments or variables, whose names are atoms or binaries. `root` is the name for all of
/// them in errors: `kwargs["a"][0]: ...`.
pub fn keywords<'py>(
    py: Python<'py>,
    root: &'static str,
    map: Term<'_>,
    options: ValueOptions,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(pairs) = rustler::MapIterator::new(map) else {
        return Ok(None);
    };
    let mut keywords = None;
    for (key, value) in pairs {
        let name = match key.atom_to_string() {
            Ok(name) => name,
            Err(_) => key.decode::<&str>().map(str::to_owned).map_err(|_| {
                let key = shortened(format!("{key:?}"));
                let text = format!("{root}: a name must be an atom or a UTF-8 binary, not {key}");
                PyTypeError::new_err(text)
            })?,
        };
        let value = convert::argument_to_python(py, value, options).map_err(|mut error| {
            error.step(Step::Key(shortened(format!("{name:?}"))));
            error.within(root)
        })?;
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
pub fn result<'a>(
    env: Env<'a>,
    outcome: &PyResult<Bound<'_, PyAny>>,
    py: Python<'_>,
    options: ResultOptions,
) -> Term<'a> {
    let error = match outcome {
        Ok(value) if options.returned == Returned::Each => match each(env, value, options.values) {
            Ok(results) => return (atoms::ok(), results).encode(env),
            Err(error) => return (atoms::error(), exception(env, py, &error)).encode(env),
        },
        Ok(value) => match convert::result_to_term(env, value, options) {
            Ok(term) => return (atoms::ok(), term).encode(env),
            Err(error) => &error.within("result").into(),
        },
        Err(error) => error,
    };
    (atoms::error(), exception(env, py, error)).encode(env)
}

/// The items of a list or a tuple as results: an exception is an error, as `asyncio.gather` returns
/// them.
fn each<'a>(
    env: Env<'a>,
    value: &Bound<'_, PyAny>,
    values: ValueOptions,
) -> PyResult<Vec<Term<'a>>> {
    let py = value.py();
    let options = ResultOptions {
        values,
        ..ResultOptions::default()
    };
    if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
        let name = value.get_type().name()?;
        let text = format!("return => each: the result must be a list or a tuple, not {name}");
        return Err(PyTypeError::new_err(text));
    }
    value
        .try_iter()?
        .map(|item| {
            let item = item?;
            let own = match item.is_instance_of::<PyBaseException>() {
                true => Err(PyErr::from_value(item)),
                false => Ok(item),
            };
            Ok(result(env, &own, py, options))
        })
        .collect()
}

/// One item of a stream.
pub fn item<'a>(
    env: Env<'a>,
    item: &Bound<'_, PyAny>,
    options: ResultOptions,
) -> PyResult<Term<'a>> {
    Ok(convert::result_to_term(env, item, options).map_err(|error| error.within("item"))?)
}

/// An exception as a term.
pub fn exception<'a>(env: Env<'a>, py: Python<'_>, error: &PyErr) -> Term<'a> {
    convert::exception::to_term(env, py, error)
}
