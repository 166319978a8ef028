//! Write flow control: when a protocol is asked to pause and to resume.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::base::Transport;
use crate::cpython::method_calls::is_fatal;

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
    /// The limits that asyncio's `set_write_buffer_limits` derives from its arguments.
    fn new(high: Option<i64>, low: Option<i64>) -> PyResult<Self> {
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

/// The number of bytes that a Python number means, or the maximum: `math.inf` is never reached.
fn level(number: &Bound<'_, PyAny>) -> PyResult<i64> {
    match number.extract::<i64>() {
        Ok(level) => Ok(level),
        // Rust's `as` saturates.
        Err(_) => Ok(number.extract::<f64>()? as i64),
    }
}

impl Transport {
    /// `size` bytes wait to be sent: if this is too much, the protocol is asked to pause.
    pub fn pause_above(slf: &Bound<'_, Self>, size: usize) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if size <= this.limits.get(py).high || this.protocol_paused.replace(py, true) {
            return Ok(());
        }
        Self::tell_protocol(slf, "pause_writing")
    }

    pub fn resume_below(slf: &Bound<'_, Self>, size: usize) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.protocol_paused.get(py) || size > this.limits.get(py).low {
            return Ok(());
        }
        this.protocol_paused.set(py, false);
        Self::tell_protocol(slf, "resume_writing")
    }

    fn tell_protocol(slf: &Bound<'_, Self>, method: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(protocol) = this.protocol.cloned(py) else {
            return Ok(());
        };
        let Err(error) = protocol.bind(py).call_method0(method) else {
            return Ok(());
        };
        if is_fatal(py, &error) {
            return Err(error);
        }
        let owner = this.owner(py)?;
        owner.get().callback_raised(py, &error)?;
        let context = PyDict::new(py);
        context.set_item("message", format!("protocol.{method}() failed"))?;
        context.set_item("exception", error.into_value(py))?;
        context.set_item("transport", slf)?;
        context.set_item("protocol", protocol)?;
        owner
            .call_method1("call_exception_handler", (context,))
            .map(drop)
    }

    pub fn write_limits(&self, py: Python<'_>) -> (usize, usize) {
        let limits = self.limits.get(py);
        (limits.low, limits.high)
    }

    /// `size`: how much waits now.
    pub fn set_write_limits(
        slf: &Bound<'_, Self>,
        high: Option<&Bound<'_, PyAny>>,
        low: Option<&Bound<'_, PyAny>>,
        size: usize,
    ) -> PyResult<()> {
        let limits = Limits::new(high.map(level).transpose()?, low.map(level).transpose()?)?;
        slf.get().limits.set(slf.py(), limits);
        Self::pause_above(slf, size)
    }
}
