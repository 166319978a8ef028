//! Structs of Elixir: maps with the key `__struct__`. Dates, times, decimals and sets become the
//! Python objects that stand for them, and an `ErlangLoop.Object` (elixir/) the object it refers to.
//! Other structs are maps like any other.

use pyo3::prelude::*;
use pyo3::types::{PyDate, PyDateTime, PyTime};
use rustler::{Atom, Encoder, MapIterator, Term};

use super::super::error::ConvertError;
use super::super::handle;
use super::super::integers;
use super::incoming::{Tagged, decimal, is_integer, made, values, zone};
use crate::atoms;
use crate::beam::terms::Elements;

/// The struct of this name. `No`: it is another one, or its fields are not those it has in Elixir.
pub fn open<'a, 'py>(
    py: Python<'py>,
    name: Term<'a>,
    map: Term<'a>,
) -> Result<Tagged<'a, 'py>, ConvertError> {
    let fields = Fields(map);
    if atoms::elixir_map_set() == name {
        return Ok(fields.members().map_or(Tagged::No, Tagged::Set));
    }
    if atoms::elixir_decimal() == name {
        return fields.decimal(py);
    }
    if atoms::elixir_object() == name {
        let object = fields.get(atoms::ref_());
        let object = object.and_then(|object| handle::to_python(py, object));
        return Ok(object.map_or(Tagged::No, Tagged::Value));
    }
    let (what, class, parts) = if atoms::elixir_date() == name {
        ("date", py.get_type::<PyDate>(), fields.date())
    } else if atoms::elixir_time() == name {
        ("time", py.get_type::<PyTime>(), fields.time())
    } else if atoms::elixir_naive_date_time() == name || atoms::elixir_date_time() == name {
        let moment = fields.date().zip(fields.time());
        let parts = moment.map(|(date, time)| [date, time].concat());
        ("datetime", py.get_type::<PyDateTime>(), parts)
    } else {
        return Ok(Tagged::No);
    };
    let Some(parts) = parts else {
        return Ok(Tagged::No);
    };
    let mut parts = values(py, &parts)?;
    if atoms::elixir_date_time() == name {
        let Some(offset) = fields.offset() else {
            return Ok(Tagged::No);
        };
        parts.push(zone(
            py,
            offset.into_pyobject(py).map_err(PyErr::from)?.into_any(),
        )?);
    }
    made(what, &class, parts).map(Tagged::Value)
}

struct Fields<'a>(Term<'a>);

impl<'a> Fields<'a> {
    fn get(&self, name: Atom) -> Option<Term<'a>> {
        self.0.map_get(name).ok()
    }

    fn integers(&self, names: [Atom; 3]) -> Option<Vec<Term<'a>>> {
        names
            .into_iter()
            .map(|name| self.get(name).filter(|value| is_integer(*value)))
            .collect()
    }

    fn is_iso(&self) -> bool {
        self.get(atoms::calendar())
            .is_some_and(|calendar| atoms::elixir_calendar_iso() == calendar)
    }

    fn date(&self) -> Option<Vec<Term<'a>>> {
        let names = [atoms::year(), atoms::month(), atoms::day()];
        self.is_iso().then(|| self.integers(names)).flatten()
    }

    /// With microseconds: `{Microseconds, Precision}`.
    fn time(&self) -> Option<Vec<Term<'a>>> {
        let names = [atoms::hour(), atoms::minute(), atoms::second()];
        let mut parts = self.is_iso().then(|| self.integers(names)).flatten()?;
        let micro = Elements::of(self.get(atoms::microsecond())?)?;
        parts.push(micro.get(0).filter(|value| is_integer(*value))?);
        Some(parts)
    }

    /// In seconds, east of Greenwich.
    fn offset(&self) -> Option<i64> {
        let part = |name| self.get(name)?.decode::<i64>().ok();
        part(atoms::utc_offset())?.checked_add(part(atoms::std_offset())?)
    }

    /// The members are the keys of a map.
    fn members(&self) -> Option<Term<'a>> {
        let members: Vec<_> = MapIterator::new(self.get(atoms::map())?)?
            .map(|(member, _)| member)
            .collect();
        Some(members.encode(self.0.get_env()))
    }

    fn decimal<'py>(&self, py: Python<'py>) -> Result<Tagged<'a, 'py>, ConvertError> {
        let (Some(sign), Some(number), Some(exponent)) = (
            self.get(atoms::sign()).and_then(|sign| sign.decode().ok()),
            self.get(atoms::coef()),
            self.get(atoms::exp())
                .and_then(|exponent| exponent.decode().ok()),
        ) else {
            return Ok(Tagged::No);
        };
        let (sign, exponent): (i64, i64) = (sign, exponent);
        let sign = if sign < 0 { "-" } else { "" };
        let text = if is_integer(number) {
            let digits = integers::to_python(py, number)?.str()?;
            format!("{sign}{digits}E{exponent}")
        } else if atoms::inf() == number {
            format!("{sign}Infinity")
        } else if atoms::nan() == number {
            format!("{sign}NaN")
        } else {
            return Ok(Tagged::No);
        };
        let text = text.into_pyobject(py).map_err(PyErr::from)?.into_any();
        decimal(py, text).map(Tagged::Value)
    }
}
