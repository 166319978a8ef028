//! Write flow control: when a protocol is told to pause and to resume.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[derive(Clone, Copy)]
pub struct Limits {
    pub high: usize,
    pub low: usize,
}

impl Default for Limits {
    /// asyncio's defaults.
    fn default() -> Self {
        Limits {
            high: 64 * 1024,
            low: 16 * 1024,
        }
    }
}

impl Limits {
    /// What asyncio's `set_write_buffer_limits` makes of its arguments.
    pub fn new(high: Option<i64>, low: Option<i64>) -> PyResult<Self> {
        let high = match (high, low) {
            (Some(high), _) => high,
            (None, Some(low)) => low.saturating_mul(4),
            (None, None) => 64 * 1024,
        };
        let low = low.unwrap_or(high.div_euclid(4));
        match (usize::try_from(high), usize::try_from(low)) {
            (Ok(high), Ok(low)) if high >= low => Ok(Limits { high, low }),
            _ => Err(PyValueError::new_err(format!(
                "high ({high}) must be >= low ({low}) must be >= 0"
            ))),
        }
    }
}
