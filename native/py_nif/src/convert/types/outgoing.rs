//! Types of the standard library as terms: tagged tuples, which [`super::incoming`] converts back,
//! or the plain value that stands for such an object.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyDictItems, PyDictKeys,
    PyDictValues, PyList, PyMappingProxy, PyRange, PyString, PyTime, PyTimeAccess, PyTuple, PyType,
    PyTzInfoAccess,
};
use rustler::{Encoder, Env, Term};

use super::super::error::{ConvertError, type_name};
use super::super::{channels, integers, limits};
use super::numpy;
use crate::atoms;
use crate::cpython::objects::arrays::Held;
use crate::cpython::objects::shared_bytes;

pub enum Rare<'a, 'py> {
    Term(Term<'a>),
    /// Another value takes its place: that of an Enum or a numpy scalar, the list of a deque.
    Instead(Bound<'py, PyAny>),
    /// The fields of a dataclass: names and values alternate.
    Fields(Vec<Bound<'py, PyAny>>),
    Unknown,
}

pub fn find<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
    held: Held,
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
        // pandas' NaT is a datetime of the year 1 for C, and nan for Python.
        if !value.is_exact_instance_of::<PyDateTime>() && value.ne(value)? {
            let class = type_name(value);
            let text = format!("Erlang has no value for {class}, which is no time; send None");
            return Err(ConvertError::refused(text));
        }
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
    match numpy::find(env, value, held)? {
        Rare::Unknown => find_rarer(env, value, &class),
        found => Ok(found),
    }
}

fn find_rarer<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
    class: &Bound<'py, PyType>,
) -> Result<Rare<'a, 'py>, ConvertError> {
    let py = value.py();
    if value.cast::<PyRange>().is_ok()
        || value.cast::<PyDictKeys>().is_ok()
        || value.cast::<PyDictValues>().is_ok()
        || value.cast::<PyDictItems>().is_ok()
        || class.is_subclass(deque_class(py)?)?
    {
        return Ok(Rare::Instead(listed(value)?));
    }
    if class.is_subclass(path_class(py)?)? {
        return Ok(Rare::Instead(value.str()?.into_any()));
    }
    if value.cast::<PyMappingProxy>().is_ok()
        || class.is_subclass(chain_map_class(py)?)?
        || is_frozendict(class)?
    {
        return Ok(Rare::Instead(py.get_type::<PyDict>().call1((value,))?));
    }
    for wrapper in wrapper_classes(py)? {
        if class.is_subclass(wrapper)? {
            return Ok(Rare::Instead(value.getattr("data")?));
        }
    }
    if class.is_subclass(array_class(py)?)? {
        let is_text = matches!(value.getattr("typecode")?.extract()?, 'u' | 'w');
        let method = if is_text { "tounicode" } else { "tolist" };
        return Ok(Rare::Instead(value.call_method0(method)?));
    }
    if class.is_subclass(fraction_class(py)?)? {
        let part = |name| -> Result<Term<'a>, ConvertError> {
            let part = value.getattr(name)?.cast_into().map_err(PyErr::from)?;
            integers::to_term(env, &part)
        };
        let (numerator, denominator) = (part("numerator")?, part("denominator")?);
        return Ok(Rare::Term(
            (atoms::fraction(), numerator, denominator).encode(env),
        ));
    }
    if let Some(channel) = channels::to_term(env, value) {
        return Ok(Rare::Term(channel));
    }
    // A model of pydantic.
    if class.hasattr("__pydantic_core_schema__")? && class.hasattr("model_dump")? {
        return Ok(Rare::Instead(value.call_method0("model_dump")?));
    }
    Ok(Rare::Unknown)
}

/// The limit is checked before memory is used: a range may have any length.
fn listed<'py>(value: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, ConvertError> {
    let limit = limits::parts();
    match value.len() {
        Ok(length) if length <= limit => Ok(value.py().get_type::<PyList>().call1((value,))?),
        Err(error) if !error.is_instance_of::<PyOverflowError>(value.py()) => Err(error.into()),
        _ => Err(limits::too_many(limit)),
    }
}

/// The class of this name, imported once.
macro_rules! class {
    ($function:ident, $module:literal, $name:literal) => {
        pub fn $function(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
            static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            CLASS.import(py, $module, $name)
        }
    };
}

/// A built-in class from Python 3.15 on, and not a subclass of `dict`.
fn is_frozendict(class: &Bound<'_, PyType>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Option<Py<PyType>>> = PyOnceLock::new();
    let py = class.py();
    let found = CLASS.get_or_try_init(py, || {
        let builtin = py.import("builtins")?.getattr_opt("frozendict")?;
        Ok::<_, PyErr>(
            builtin
                .and_then(|it| it.cast_into().ok())
                .map(Bound::unbind),
        )
    })?;
    found
        .as_ref()
        .map_or(Ok(false), |found| class.is_subclass(found.bind(py)))
}

class!(enum_class, "enum", "Enum");
class!(decimal_class, "decimal", "Decimal");
class!(uuid_class, "uuid", "UUID");
class!(fraction_class, "fractions", "Fraction");
class!(path_class, "pathlib", "PurePath");
class!(deque_class, "collections", "deque");
class!(chain_map_class, "collections", "ChainMap");
class!(user_dict_class, "collections", "UserDict");
class!(user_list_class, "collections", "UserList");
class!(user_string_class, "collections", "UserString");
class!(array_class, "array", "array");

/// Classes with a built-in value in `data`.
fn wrapper_classes(py: Python<'_>) -> PyResult<[&Bound<'_, PyType>; 3]> {
    Ok([
        user_dict_class(py)?,
        user_list_class(py)?,
        user_string_class(py)?,
    ])
}

/// Rejects `value` if it is of the same class as what it replaces (an Enum in an Enum, numpy's
/// longdouble): that would never end.
pub fn stand_in<'a, 'py>(
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

/// Names and elements alternate. `None`: no namedtuple.
pub fn namedtuple_fields<'py>(
    tuple: &Bound<'py, PyTuple>,
) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let Some(names) = tuple.get_type().getattr_opt("_fields")? else {
        return Ok(None);
    };
    let Ok(names) = names.cast_into::<PyTuple>() else {
        return Ok(None);
    };
    let is_named =
        names.len() == tuple.len() && names.iter().all(|name| name.cast::<PyString>().is_ok());
    Ok(is_named.then(|| {
        let pairs = names.iter().zip(tuple.iter());
        pairs.flat_map(|(name, value)| [name, value]).collect()
    }))
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
