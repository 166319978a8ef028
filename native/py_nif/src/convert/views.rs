//! The memory of Erlang's binaries in Python, without a copy: `{view, Binary}`, and numpy arrays.

use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use rustler::Term;

use super::error::ConvertError;
use crate::beam::kept_binary::KeptBinary;
use crate::cpython::objects::buffers::BinaryMemory;

/// The object whose buffer is the binary.
pub fn memory<'py>(py: Python<'py>, binary: Term<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    let kept = KeptBinary::new(binary).ok_or_else(|| ConvertError::refused("not a binary"))?;
    Ok(Bound::new(py, BinaryMemory(kept))?.into_any())
}

/// A `memoryview` of the binary.
pub fn memoryview<'py>(
    py: Python<'py>,
    binary: Term<'_>,
) -> Result<Bound<'py, PyAny>, ConvertError> {
    Ok(PyMemoryView::from(&memory(py, binary)?)?.into_any())
}
