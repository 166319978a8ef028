//! Types of the standard library and numpy as terms. Erlang has no such types, so they arrive as
//! tagged tuples, and come back to Python as such tuples.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyString, PyTime,
    PyTimeAccess, PyTuple, PyType, PyTzInfoAccess,
};
use rustler::{Encoder, Env, Term};

use super::error::{ConvertError, type_name};
use super::shared_bytes;
use crate::atoms;

pub enum Rare<'a, 'py> {
    Term(Term<'a>),
    /// Another value takes its place: that of an Enum or a numpy scalar.
    Instead(Bound<'py, PyAny>),
    /// The fields of a dataclass: names and values alternate.
    Fields(Vec<Bound<'py, PyAny>>),
    Unknown,
}

pub fn find<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
) -> Result<Rare<'a, 'py>, ConvertError> {
    let py = value.py();
    let class = value.get_type();
    if class.is_subclass(enum_class(py)?)? {
        return stand_in(value, value.getattr("value")?);
    }
    if class.hasattr("__dataclass_fields__")? {
        return Ok(Rare::Fields(fields(value)?));
    }
    if let Ok(moment) = value.cast::<PyDateTime>() {
        return Ok(Rare::Term(datetime(env, moment)?));
    }
    if let Ok(date) = value.cast::<PyDate>() {
        return Ok(Rare::Term((atoms::date(), ymd(date)).encode(env)));
    }
    if let Ok(time) = value.cast::<PyTime>() {
        if time.get_tzinfo().is_some() {
            return Err(ConvertError::refused(
                "a time with a time zone has no form in Erlang",
            ));
        }
        let micro = time.get_microsecond();
        return Ok(Rare::Term((atoms::time(), hms(time), micro).encode(env)));
    }
    if let Ok(delta) = value.cast::<PyDelta>() {
        let (days, seconds) = (delta.get_days(), delta.get_seconds());
        let micro = delta.get_microseconds();
        return Ok(Rare::Term(
            (atoms::timedelta(), days, seconds, micro).encode(env),
        ));
    }
    if class.is_subclass(decimal_class(py)?)? {
        return Ok(Rare::Term(tagged_text(env, atoms::decimal(), value)?));
    }
    if class.is_subclass(uuid_class(py)?)? {
        return Ok(Rare::Term(tagged_text(env, atoms::uuid(), value)?));
    }
    numpy(env, value)
}

fn enum_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "enum", "Enum")
}

fn decimal_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "decimal", "Decimal")
}

fn uuid_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "uuid", "UUID")
}

/// Rejects `value` if it is of the same class as what it replaces (an Enum in an Enum, numpy's
/// longdouble): that would never end.
fn stand_in<'a, 'py>(
    value: &Bound<'py, PyAny>,
    other: Bound<'py, PyAny>,
) -> Result<Rare<'a, 'py>, ConvertError> {
    match other.get_type().is(value.get_type()) {
        true => Err(ConvertError::refused(format!(
            "cannot send {} to Erlang: no plain value stands for it",
            type_name(value)
        ))),
        false => Ok(Rare::Instead(other)),
    }
}

/// As `dataclasses.fields` returns them: without pseudo-fields such as ClassVar.
fn fields<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    static FIELDS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let fields = FIELDS
        .import(py, "dataclasses", "fields")?
        .call1((value.get_type(),))?;
    let fields = fields.cast_into::<PyTuple>()?;
    let mut found = Vec::with_capacity(2 * fields.len());
    for field in fields.iter() {
        let name = field.getattr("name")?.cast_into::<PyString>()?;
        let content = value.getattr(&name)?;
        found.push(name.into_any());
        found.push(content);
    }
    Ok(found)
}

fn datetime<'a>(env: Env<'a>, moment: &Bound<'_, PyDateTime>) -> Result<Term<'a>, ConvertError> {
    let offset = match moment.get_tzinfo() {
        None => atoms::none().encode(env),
        Some(_) => utc_offset(env, moment)?,
    };
    let micro = moment.get_microsecond();
    Ok((atoms::datetime(), (ymd(moment), hms(moment)), micro, offset).encode(env))
}

/// In seconds, east of Greenwich.
fn utc_offset<'a>(env: Env<'a>, moment: &Bound<'_, PyAny>) -> Result<Term<'a>, ConvertError> {
    let offset = moment.call_method0("utcoffset")?;
    if offset.is_none() {
        return Ok(atoms::none().encode(env));
    }
    let offset = offset.cast_into::<PyDelta>().map_err(PyErr::from)?;
    match offset.get_microseconds() {
        0 => Ok((offset.get_days() * 86_400 + offset.get_seconds()).encode(env)),
        _ => Err(ConvertError::refused(
            "a time zone off by parts of a second cannot be sent",
        )),
    }
}

fn ymd(date: &impl PyDateAccess) -> (i32, u8, u8) {
    (date.get_year(), date.get_month(), date.get_day())
}

fn hms(time: &impl PyTimeAccess) -> (u8, u8, u8) {
    (time.get_hour(), time.get_minute(), time.get_second())
}

fn tagged_text<'a>(
    env: Env<'a>,
    tag: rustler::Atom,
    value: &Bound<'_, PyAny>,
) -> PyResult<Term<'a>> {
    let text = value.str()?;
    Ok((tag, shared_bytes::of_str(env, &text)?).encode(env))
}

/// Looks for numpy each time, because it can be imported at any time; values of its types cannot
/// exist before that.
fn numpy<'a, 'py>(env: Env<'a>, value: &Bound<'py, PyAny>) -> Result<Rare<'a, 'py>, ConvertError> {
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
        return Ok(Rare::Term(ndarray(env, value)?));
    }
    Ok(Rare::Unknown)
}

/// `{ndarray, DType, Shape, Binary}`, the elements in C order.
fn ndarray<'a>(env: Env<'a>, array: &Bound<'_, PyAny>) -> Result<Term<'a>, ConvertError> {
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
    let bytes = array
        .call_method0("tobytes")?
        .cast_into::<PyBytes>()
        .map_err(PyErr::from)?;
    let binary = shared_bytes::of_bytes(env, &bytes);
    Ok((
        atoms::ndarray(),
        kind,
        crate::beam::terms::tuple(env, &shape),
        binary,
    )
        .encode(env))
}
