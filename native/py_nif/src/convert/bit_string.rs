//! Bitstrings that are not binaries: `erlang.BitString`.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustler::{Env, Term};

use super::error::ConvertError;

const BINARY: u8 = 109;
const BIT_BINARY: u8 = 77;

/// `BitString(data, bits)`: the first `bits` bits of `data`, from the most significant one on.
#[pyclass(frozen, eq, module = "erlang")]
#[derive(PartialEq, Eq, Hash)]
pub struct BitString {
    /// Only the bytes needed; unused bits are zero.
    data: Vec<u8>,
    #[pyo3(get)]
    bits: usize,
}

#[pymethods]
impl BitString {
    #[new]
    fn new(data: Vec<u8>, bits: usize) -> PyResult<Self> {
        let mut data = data;
        let length = bits.div_ceil(8);
        if length > data.len() {
            let have = data.len() * 8;
            return Err(PyValueError::new_err(format!("{bits} bits of {have}")));
        }
        data.truncate(length);
        if let (Some(last), used @ 1..) = (data.last_mut(), bits % 8) {
            *last &= 0xffu8 << (8 - used);
        }
        Ok(BitString { data, bits })
    }

    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.data)
    }

    fn __len__(&self) -> usize {
        self.bits
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "BitString({}, {})",
            self.data(py).repr()?,
            self.bits
        ))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> (Bound<'py, PyAny>, (Bound<'py, PyBytes>, usize)) {
        let value = slf.get();
        (
            slf.get_type().into_any(),
            (value.data(slf.py()), value.bits),
        )
    }
}

/// Converts a bitstring that is not a binary.
pub fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    let external = term.to_binary();
    let [131, BIT_BINARY, _, _, _, _, last, data @ ..] = external.as_slice() else {
        return Err(ConvertError::refused("a bitstring in an unknown format"));
    };
    let bits = (data.len() - 1) * 8 + usize::from(*last);
    let value = BitString::new(data.to_vec(), bits)?;
    Ok(Bound::new(py, value)?.into_any())
}

pub fn to_term<'a>(env: Env<'a>, value: &BitString) -> Result<Term<'a>, ConvertError> {
    let bits_of_last = (value.bits % 8) as u8;
    // Whole bytes are sent as a binary: OTP 29 rejects an empty bitstring in the other form.
    let tag = if bits_of_last == 0 {
        BINARY
    } else {
        BIT_BINARY
    };
    let mut external = vec![131, tag];
    let length = u32::try_from(value.data.len());
    external.extend(length.unwrap_or(u32::MAX).to_be_bytes());
    if bits_of_last > 0 {
        external.push(bits_of_last);
    }
    external.extend_from_slice(&value.data);
    env.binary_to_term(&external)
        .map(|(term, _)| term)
        .ok_or_else(|| ConvertError::refused("a bitstring of this size cannot cross"))
}
