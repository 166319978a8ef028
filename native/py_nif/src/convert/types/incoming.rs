//! Tagged tuples as the objects that [`super::outgoing`] sends as such tuples.
//!
//! A tuple is such a value if it has the tag, the size and elements of the types that the value
//! has when Python sends it; every other tuple stays a tuple. If it has all this, but there is no
//! such value (month 13), that is an error.

use pyo3::exceptions::{PyArithmeticError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyComplex, PyDate, PyDateTime, PyDelta, PyString, PyTime, PyTuple, PyType, PyTzInfo,
};
use rustler::{Binary, Term, TermType};

use super::super::error::{ConvertError, shortened};
use super::super::{integers, views};
use super::numpy;
use super::outgoing::{decimal_class, fraction_class, uuid_class};
use crate::atoms;
use crate::beam::terms::Elements;

pub enum Tagged<'a, 'py> {
    Value(Bound<'py, PyAny>),
    /// The members are still to be converted.
    Set(Term<'a>),
    FrozenSet(Term<'a>),
    /// A tuple without a meaning of its own.
    No,
}

/// Any tuple: what is it?
#[inline]
pub fn open<'a, 'py>(
    py: Python<'py>,
    tuple: &Elements<'a>,
) -> Result<Tagged<'a, 'py>, ConvertError> {
    let value = match (tuple.get(0), tuple.get(1), tuple.get(2), tuple.get(3)) {
        (Some(tag), Some(one), None, None) => return pair(py, tag, one),
        (Some(tag), Some(one), Some(two), None) => triple(py, tag, one, two)?,
        (Some(tag), Some(one), Some(two), Some(three)) if tuple.len() == 4 => {
            quadruple(py, tag, one, two, three)?
        }
        _ => None,
    };
    Ok(value.map_or(Tagged::No, Tagged::Value))
}

#[inline]
fn pair<'a, 'py>(
    py: Python<'py>,
    tag: Term<'a>,
    one: Term<'a>,
) -> Result<Tagged<'a, 'py>, ConvertError> {
    let value = if atoms::view() == tag && one.is_binary() {
        views::memoryview(py, one)?
    } else if atoms::set() == tag && one.list_length().is_ok() {
        return Ok(Tagged::Set(one));
    } else if atoms::frozenset() == tag && one.list_length().is_ok() {
        return Ok(Tagged::FrozenSet(one));
    } else if atoms::date() == tag
        && let Some(date) = integers_of::<3>(one)
    {
        made("date", &py.get_type::<PyDate>(), values(py, &date)?)?
    } else if atoms::decimal() == tag
        && let Some(text) = text(py, one)?
    {
        decimal(py, text)?
    } else if atoms::uuid() == tag
        && let Some(text) = text(py, one)?
    {
        made("uuid", uuid_class(py)?, vec![text])?
    } else {
        return Ok(Tagged::No);
    };
    Ok(Tagged::Value(value))
}

#[inline]
fn triple<'a, 'py>(
    py: Python<'py>,
    tag: Term<'a>,
    one: Term<'a>,
    two: Term<'a>,
) -> Result<Option<Bound<'py, PyAny>>, ConvertError> {
    Ok(Some(
        if atoms::complex() == tag
            && let (Some(real), Some(imaginary)) = (float(one), float(two))
        {
            PyComplex::from_doubles(py, real, imaginary).into_any()
        } else if atoms::fraction() == tag && is_integer(one) && is_integer(two) {
            made("fraction", fraction_class(py)?, values(py, &[one, two])?)?
        } else if atoms::time() == tag
            && let (Some([hour, minute, second]), true) = (integers_of(one), is_integer(two))
        {
            let parts = values(py, &[hour, minute, second, two])?;
            made("time", &py.get_type::<PyTime>(), parts)?
        } else {
            return Ok(None);
        },
    ))
}

#[inline]
fn quadruple<'a, 'py>(
    py: Python<'py>,
    tag: Term<'a>,
    one: Term<'a>,
    two: Term<'a>,
    three: Term<'a>,
) -> Result<Option<Bound<'py, PyAny>>, ConvertError> {
    if atoms::timedelta() == tag && [one, two, three].into_iter().all(is_integer) {
        let parts = values(py, &[one, two, three])?;
        return made("timedelta", &py.get_type::<PyDelta>(), parts).map(Some);
    }
    if atoms::datetime() == tag && is_integer(two) {
        return datetime(py, one, two, three);
    }
    if atoms::ndarray() == tag && one.is_binary() && two.is_tuple() && three.is_binary() {
        return numpy::array(py, one, two, three);
    }
    Ok(None)
}

/// `{{Year, Month, Day}, {Hour, Minute, Second}}`, microseconds, and the seconds from UTC or `none`.
fn datetime<'a, 'py>(
    py: Python<'py>,
    date_and_time: Term<'a>,
    micro: Term<'a>,
    offset: Term<'a>,
) -> Result<Option<Bound<'py, PyAny>>, ConvertError> {
    let parts = Elements::of(date_and_time).filter(|parts| parts.len() == 2);
    let Some((Some(date), Some(time))) = parts.map(|parts| (parts.get(0), parts.get(1))) else {
        return Ok(None);
    };
    let (Some([year, month, day]), Some([hour, minute, second])) =
        (integers_of(date), integers_of(time))
    else {
        return Ok(None);
    };
    let mut parts = values(py, &[year, month, day, hour, minute, second, micro])?;
    if is_integer(offset) {
        parts.push(zone(py, integers::to_python(py, offset)?)?);
    } else if atoms::none() != offset {
        return Ok(None);
    }
    made("datetime", &py.get_type::<PyDateTime>(), parts).map(Some)
}

pub fn decimal<'py>(
    py: Python<'py>,
    text: Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>, ConvertError> {
    let shown = shortened(format!("{text:?}"));
    decimal_class(py)?.call1((text,)).map_err(|error| {
        match error.is_instance_of::<PyArithmeticError>(py) {
            true => ConvertError::refused(format!("there is no such decimal: {shown}")),
            false => error.into(),
        }
    })
}

/// The time zone that is this many seconds east of Greenwich.
pub fn zone<'py>(
    py: Python<'py>,
    seconds: Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>, ConvertError> {
    let utc = PyTzInfo::utc(py)?;
    if seconds.eq(0)? {
        return Ok(utc.to_owned().into_any());
    }
    let class = utc.get_type();
    let delta = py.get_type::<PyDelta>().call1((0, seconds));
    let delta = delta.map_err(|error| impossible(py, "datetime", error))?;
    made("datetime", &class, vec![delta])
}

/// Calls the class; an exception about the values means that there is no such value.
pub fn made<'py>(
    what: &str,
    class: &Bound<'py, PyType>,
    values: Vec<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>, ConvertError> {
    let py = class.py();
    class
        .call1(PyTuple::new(py, values)?)
        .map_err(|error| impossible(py, what, error))
}

pub fn impossible(py: Python<'_>, what: &str, error: PyErr) -> ConvertError {
    let about_the_value = error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyArithmeticError>(py);
    match about_the_value {
        true => {
            let why = shortened(error.value(py).to_string());
            ConvertError::refused(format!("there is no such {what}: {why}"))
        }
        false => error.into(),
    }
}

/// `None` for an integer, too.
fn float(term: Term<'_>) -> Option<f64> {
    match term.get_type() {
        TermType::Float => term.decode().ok(),
        _ => None,
    }
}

pub fn is_integer(term: Term<'_>) -> bool {
    term.get_type() == TermType::Integer
}

/// The elements of a tuple of this many integers.
fn integers_of<const COUNT: usize>(tuple: Term<'_>) -> Option<[Term<'_>; COUNT]> {
    let elements = Elements::of(tuple).filter(|elements| elements.len() == COUNT)?;
    let mut found = [tuple; COUNT];
    for (index, place) in found.iter_mut().enumerate() {
        *place = elements.get(index).filter(|element| is_integer(*element))?;
    }
    Some(found)
}

pub fn values<'py>(
    py: Python<'py>,
    integers: &[Term<'_>],
) -> Result<Vec<Bound<'py, PyAny>>, ConvertError> {
    let convert = |term: &Term<'_>| integers::to_python(py, *term);
    integers.iter().map(convert).collect()
}

/// `None`: not a binary of UTF-8.
fn text<'py>(py: Python<'py>, term: Term<'_>) -> Result<Option<Bound<'py, PyAny>>, ConvertError> {
    let Ok(binary) = Binary::from_term(term) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(binary.as_slice());
    Ok(text.ok().map(|text| PyString::new(py, text).into_any()))
}
