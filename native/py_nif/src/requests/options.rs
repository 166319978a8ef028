//! The options of a request, which arrive with its call: `{with, Options, Call}`. A call without
//! options is the bare `Call`.
//!
//! `timeout`, `loop` and the options of streams stay in Erlang (`erl_src/py_options.erl`).

use rustler::{Atom, MapIterator, NifResult, Term};

use super::call::text;
use super::snippet::SnippetOptions;
use crate::atoms;
use crate::beam::terms::Elements;
use crate::convert::{Nothing, ResultOptions, Returned, ValueOptions};

pub struct CallOptions {
    pub result: ResultOptions,
    /// Only for code: `eval` and `exec`.
    pub snippet: SnippetOptions,
}

/// Of a call without options.
impl Default for CallOptions {
    fn default() -> Self {
        CallOptions {
            result: ResultOptions {
                values: ValueOptions::of_node(),
                ..ResultOptions::default()
            },
            snippet: SnippetOptions::default(),
        }
    }
}

impl CallOptions {
    /// The options, and the call itself. Unknown options are `badarg`.
    pub fn split(term: Term<'_>) -> NifResult<(Self, Term<'_>)> {
        let parts = Elements::of(term).ok_or(rustler::Error::BadArg)?;
        match (parts.get(0), parts.get(1), parts.get(2), parts.len()) {
            (Some(with), Some(options), Some(call), 3) if atoms::with() == with => {
                Ok((Self::decode(options)?, call))
            }
            _ => Ok((Self::default(), term)),
        }
    }

    fn decode(options: Term<'_>) -> NifResult<Self> {
        let mut decoded = CallOptions::default();
        let pairs = MapIterator::new(options).ok_or(rustler::Error::BadArg)?;
        for (name, value) in pairs {
            if atoms::return_() == name {
                decoded.result.returned = returned(value)?;
            } else if atoms::values() == name {
                decoded.result.values = values(value)?;
            } else if atoms::namespace() == name {
                decoded.snippet.namespace = Some(value.decode()?);
            } else if atoms::file() == name {
                decoded.snippet.file = Some(text(value)?);
            } else if atoms::line() == name {
                decoded.snippet.line = Some(line(value)?);
            } else {
                return Err(rustler::Error::BadArg);
            }
        }
        Ok(decoded)
    }
}

fn returned(value: Term<'_>) -> NifResult<Returned> {
    if atoms::ref_() == value {
        Ok(Returned::Reference)
    } else if atoms::value() == value {
        Ok(Returned::Value)
    } else if atoms::each() == value {
        Ok(Returned::Each)
    } else {
        Err(rustler::Error::BadArg)
    }
}

fn values(options: Term<'_>) -> NifResult<ValueOptions> {
    let mut decoded = ValueOptions::of_node();
    for (name, value) in MapIterator::new(options).ok_or(rustler::Error::BadArg)? {
        if atoms::none() == name {
            decoded.none = Nothing::of(value).ok_or(rustler::Error::BadArg)?;
        } else if atoms::non_finite() == name {
            decoded.non_finite_atoms = is_second(value, [atoms::error(), atoms::atoms()])?;
        } else if atoms::namedtuples() == name {
            decoded.namedtuple_maps = is_second(value, [atoms::tuples(), atoms::maps()])?;
        } else {
            return Err(rustler::Error::BadArg);
        }
    }
    Ok(decoded)
}

/// For an option with two values.
fn is_second(value: Term<'_>, values: [Atom; 2]) -> NifResult<bool> {
    let place = values.iter().position(|known| *known == value);
    place.map(|place| place == 1).ok_or(rustler::Error::BadArg)
}

/// Of a file that a compiler can take.
fn line(value: Term<'_>) -> NifResult<u32> {
    const MOST: u32 = 10_000_000;
    match value.decode()? {
        line @ 1..=MOST => Ok(line),
        _ => Err(rustler::Error::BadArg),
    }
}
