//! Arrays and scalars of numpy. An array is `{ndarray, DType, Shape, Binary}`, with the elements in C
//! order.

use pyo3::exceptions::PySyntaxError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use rustler::{Encoder, Env, Term};

use super::super::error::{ConvertError, shortened};
use super::super::views;
use super::incoming::impossible;
use super::outgoing::{Rare, stand_in};
use crate::atoms;
use crate::beam::terms::{self, Elements};
use crate::cpython::objects::arrays::{self, Held};
use crate::cpython::objects::shared_bytes;

/// Looks for numpy each time, because it can be imported at any time; values of its types cannot
/// exist before that.
pub fn find<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
    held: Held,
) -> Result<Rare<'a, 'py>, ConvertError> {
    static MODULES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let modules = MODULES.import(py, "sys", "modules")?;
    let Ok(numpy) = modules.get_item("numpy") else {
        return Ok(Rare::Unknown);
    };
    let class = value.get_type();
    // A numpy that is still being imported lacks them.
    let (Ok(scalar), Ok(array)) = (numpy.getattr("generic"), numpy.getattr("ndarray")) else {
        return Ok(Rare::Unknown);
    };
    if class.is_subclass(&scalar)? {
        return stand_in(value, value.call_method0("item")?);
    }
    if class.is_subclass(&array)? {
        return Ok(Rare::Term(to_term(
            env,
            value,
            array.cast().map_err(PyErr::from)?,
            held,
        )?));
    }
    Ok(Rare::Unknown)
}

fn to_term<'a>(
    env: Env<'a>,
    array: &Bound<'_, PyAny>,
    class: &Bound<'_, PyType>,
    held: Held,
) -> Result<Term<'a>, ConvertError> {
    let dtype = array.getattr("dtype")?;
    // Objects would be sent as pointers; fields and masks would be lost.
    if dtype.getattr("hasobject")?.is_truthy()?
        || !dtype.getattr("names")?.is_none()
        || array.hasattr("mask")?
    {
        return Err(ConvertError::refused(format!(
            "an array of dtype {} cannot be sent as one binary",
            dtype.str()?.to_string_lossy()
        )));
    }
    let kind: String = dtype.getattr("str")?.extract()?;
    let shape: Vec<u64> = array.getattr("shape")?.extract()?;
    let shape: Vec<_> = shape.iter().map(|size| size.encode(env).into()).collect();
    let binary = match arrays::shared(env, array, class, held)? {
        None => shared_bytes::of_view(env, array)?,
        shared => shared,
    };
    let binary = match binary {
        Some(binary) => binary,
        None => {
            let bytes = array.call_method0("tobytes")?;
            shared_bytes::of_bytes(env, bytes.cast().map_err(PyErr::from)?)
        }
    };
    Ok((atoms::ndarray(), kind, terms::tuple(env, &shape), binary).encode(env))
}

/// The array of a tuple with the types of `{ndarray, DType, Shape, Binary}`. It uses the memory of
/// the binary, so it cannot be written to. `None`: the shape is not a tuple of integers.
pub fn array<'py>(
    py: Python<'py>,
    dtype: Term<'_>,
    shape: Term<'_>,
    binary: Term<'_>,
) -> Result<Option<Bound<'py, PyAny>>, ConvertError> {
    let Some(shape) = sizes(shape) else {
        return Ok(None);
    };
    let no_such = |error| impossible(py, "array", error);
    let numpy = py.import("numpy").map_err(|error| {
        let why = shortened(error.value(py).to_string());
        ConvertError::refused(format!(
            "an array needs numpy, which cannot be imported: {why}"
        ))
    })?;
    let text =
        std::str::from_utf8(rustler::Binary::from_term(dtype).map_or(&[], |text| text.as_slice()));
    let dtype = numpy.call_method1("dtype", (text.unwrap_or("not UTF-8"),));
    // numpy parses some texts as Python code.
    let dtype = dtype.map_err(|error| match error.is_instance_of::<PySyntaxError>(py) {
        true => ConvertError::refused("there is no such array: its dtype is not understood"),
        false => no_such(error),
    })?;
    // Objects would be addresses in memory; the others go out in another form.
    if dtype.getattr("hasobject")?.is_truthy()?
        || !dtype.getattr("names")?.is_none()
        || !dtype.getattr("subdtype")?.is_none()
    {
        return Err(ConvertError::refused(format!(
            "an array of dtype {} cannot be one binary",
            dtype.str()?.to_string_lossy()
        )));
    }
    let have = rustler::Binary::from_term(binary).map_or(0, |binary| binary.len()) as u128;
    let item: u128 = dtype.getattr("itemsize")?.extract()?;
    let need = shape
        .iter()
        .try_fold(item, |size, &count| size.checked_mul(count.into()));
    if need != Some(have) {
        return Err(ConvertError::refused(format!(
            "there is no such array: its dtype and shape need {} bytes, but it has {have}",
            need.map_or("too many".to_owned(), |need| need.to_string())
        )));
    }
    let memory = views::memory(py, binary)?;
    let array = numpy.call_method1("ndarray", (PyTuple::new(py, shape)?, dtype, memory));
    array.map(Some).map_err(no_such)
}

/// A tuple of sizes.
fn sizes(tuple: Term<'_>) -> Option<Vec<u64>> {
    let elements = Elements::of(tuple)?;
    (0..elements.len())
        .map(|index| elements.get(index)?.decode().ok())
        .collect()
}
