//! The options of a request, which arrive with its call: `{with, Options, Call}`. A call without
//! options is the bare `Call`.
//!
//! `timeout`, `loop` and the options of streams stay in Erlang (`erl_src/py_options.erl`).

use rustler::{MapIterator, NifResult, Term};

use crate::atoms;
use crate::beam::terms::Elements;
use crate::convert::ResultOptions;

#[derive(Clone, Copy, Debug, Default)]
pub struct CallOptions {
    pub result: ResultOptions,
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
                decoded.result.by_reference = is_reference(value)?;
            } else {
                return Err(rustler::Error::BadArg);
            }
        }
        Ok(decoded)
    }
}

fn is_reference(value: Term<'_>) -> NifResult<bool> {
    if atoms::ref_() == value {
        Ok(true)
    } else if atoms::value() == value {
        Ok(false)
    } else {
        Err(rustler::Error::BadArg)
    }
}
