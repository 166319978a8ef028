//! Integers of any size. Integers of up to 64 bits use the functions of the VM and PyO3; larger
//! ones use the external term format, which contains the bytes of the absolute value, least
//! significant first.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use rustler::{Encoder, Env, Term};

use super::error::ConvertError;
use super::limits;

const SMALL_BIG: u8 = 110;
const LARGE_BIG: u8 = 111;

#[inline]
pub fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    match term.decode::<i64>() {
        Ok(number) => Ok(number.into_pyobject(py).map_err(PyErr::from)?.into_any()),
        Err(_) => big_to_python(py, term),
    }
}

#[cold]
fn big_to_python<'py>(py: Python<'py>, term: Term<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    let external = term.to_binary();
    let (sign, digits) = match external.as_slice() {
        [131, SMALL_BIG, _, sign, digits @ ..] => (*sign, digits),
        [131, LARGE_BIG, _, _, _, _, sign, digits @ ..] => (*sign, digits),
        _ => return Err(ConvertError::refused("an integer in an unknown format")),
    };
    if digits.len() > limits::integer_bytes() {
        return Err(too_large());
    }
    let bytes = PyBytes::new(py, digits);
    let absolute = py
        .get_type::<PyInt>()
        .call_method1("from_bytes", (bytes, "little"))?;
    Ok(match sign {
        0 => absolute,
        _ => absolute.neg()?,
    })
}

/// Converts an int or an instance of a subclass.
#[inline]
pub fn to_term<'a>(env: Env<'a>, number: &Bound<'_, PyInt>) -> Result<Term<'a>, ConvertError> {
    match number.extract::<i64>() {
        Ok(small) => Ok(small.encode(env)),
        Err(_) => big_to_term(env, number),
    }
}

#[cold]
fn big_to_term<'a>(env: Env<'a>, number: &Bound<'_, PyInt>) -> Result<Term<'a>, ConvertError> {
    // int's own methods, even if a subclass overrides them.
    let int = number.py().get_type::<PyInt>();
    let absolute = int.call_method1("__abs__", (number,))?;
    let bits: usize = int.call_method1("bit_length", (number,))?.extract()?;
    let length = bits.div_ceil(8);
    if length > limits::integer_bytes() {
        return Err(too_large());
    }
    let digits = int.call_method1("to_bytes", (&absolute, length, "little"))?;
    let digits = digits.cast_into::<PyBytes>().map_err(PyErr::from)?;
    let negative = int.call_method1("__lt__", (number, 0))?.is_truthy()?;

    let mut external = Vec::with_capacity(length + 8);
    external.push(131);
    match u8::try_from(length) {
        Ok(short) => external.extend([SMALL_BIG, short]),
        Err(_) => {
            let length = u32::try_from(length).map_err(|_| too_large())?;
            external.push(LARGE_BIG);
            external.extend(length.to_be_bytes());
        }
    }
    external.push(u8::from(negative));
    external.extend_from_slice(digits.as_bytes());
    // From OTP 27 on the VM has a limit of its own, half of ours.
    env.binary_to_term(&external)
        .map(|(term, _)| term)
        .ok_or_else(too_large)
}

fn too_large() -> ConvertError {
    let limit = limits::printed(limits::integer_bytes());
    ConvertError::refused(format!(
        "an integer of this size cannot cross (at most {limit} bytes; send text or bytes)"
    ))
}
