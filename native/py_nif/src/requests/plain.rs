//! A few arguments that are atoms and numbers: kept as such. Others are copied into memory of the
//! VM, which is allocated on one thread and freed on another.

use pyo3::prelude::*;
use rustler::{Atom, Term, TermType};

use crate::convert;

/// More arguments than this are copied.
const MOST: usize = 3;

#[derive(Clone, Copy)]
pub enum Plain {
    Atom(Atom),
    Integer(i64),
    Float(f64),
}

/// All arguments of a call.
pub struct PlainArguments {
    values: [Option<Plain>; MOST],
}

impl PlainArguments {
    /// `None` if the list contains other terms, or too many.
    pub fn of(list: Term<'_>) -> Option<Self> {
        let mut values = [None; MOST];
        let mut rest = list;
        for value in &mut values {
            let Ok((first, others)) = rest.list_get_cell() else {
                break;
            };
            *value = Some(Plain::of(first)?);
            rest = others;
        }
        rest.is_empty_list().then_some(PlainArguments { values })
    }

    pub fn iter(&self) -> impl Iterator<Item = Plain> + '_ {
        self.values.iter().map_while(|value| *value)
    }
}

impl Plain {
    fn of(term: Term<'_>) -> Option<Self> {
        match term.get_type() {
            TermType::Atom => Atom::from_term(term).ok().map(Plain::Atom),
            TermType::Integer => term.decode().ok().map(Plain::Integer),
            TermType::Float => term.decode().ok().map(Plain::Float),
            _ => None,
        }
    }
}

/// As a Python object.
pub fn to_python<'py>(py: Python<'py>, value: Plain) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Plain::Atom(atom) => {
            convert::atoms::to_python(py, atom).map_err(|error| error.within("args"))?
        }
        Plain::Integer(number) => number.into_pyobject(py)?.into_any(),
        Plain::Float(number) => number.into_pyobject(py)?.into_any(),
    })
}
