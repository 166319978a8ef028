//! The clock of a loop's timers: the system's, unless the program has replaced `time`. Tests do
//! this to control the time, and so do simulations.
//!
//! asyncio calls `self.time()` wherever it needs the time. Here that reads one field, which changes
//! when the attribute does.

use event_loop::now_ns;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::class::{Loop, nanoseconds};
use crate::cpython::objects::slots;

/// Which `time` a loop uses.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum Clock {
    #[default]
    System,
    /// A subclass's, or one that was assigned to our class.
    OfClass,
    /// The object's own: `loop.time = ...`.
    OfObject,
}

/// Seconds on the loop's clock.
#[inline]
pub fn seconds(slf: &Bound<'_, Loop>) -> PyResult<f64> {
    match slf.get().timers.clock.get(slf.py()) {
        Clock::System => Ok(system_seconds()),
        Clock::OfClass | Clock::OfObject => seconds_of_program(slf),
    }
}

pub fn system_seconds() -> f64 {
    now_ns() as f64 / 1e9
}

/// Nanoseconds on the program's clock; `None` if the loop uses the system's.
#[inline]
pub fn of_program(slf: &Bound<'_, Loop>) -> PyResult<Option<u64>> {
    match slf.get().timers.clock.get(slf.py()) {
        Clock::System => Ok(None),
        Clock::OfClass | Clock::OfObject => {
            seconds_of_program(slf).map(|seconds| Some(nanoseconds(seconds)))
        }
    }
}

#[cold]
fn seconds_of_program(slf: &Bound<'_, Loop>) -> PyResult<f64> {
    slf.call_method0(intern!(slf.py(), "time"))?.extract()
}

/// Checks which `time` the class has. Called when a loop is created and when it begins to run: a
/// change to the class in between is not noticed before.
pub fn look_at_class(slf: &Bound<'_, Loop>) -> PyResult<()> {
    let py = slf.py();
    let clock = &slf.get().timers.clock;
    if clock.get(py) == Clock::OfObject {
        return Ok(());
    }
    let has = slf.get_type().getattr(intern!(py, "time"))?;
    // Each of our classes has its own native `time` (`own_methods`): these are not identical, but
    // of a type that programs do not create.
    let of_class = match slots::is_native_method(&has) {
        true => Clock::System,
        false => Clock::OfClass,
    };
    clock.set(py, of_class);
    Ok(())
}

/// `loop.name = value`; without a value, deletes the attribute.
pub fn set_attribute(
    slf: &Bound<'_, Loop>,
    name: &Bound<'_, PyString>,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = slf.py();
    slots::set_attribute(slf, name, value)?;
    // CPython interns names before this call, as it does with names in code.
    if name.as_any().is(intern!(py, "time")) {
        let clock = match value {
            Some(_) => Clock::OfObject,
            None => Clock::System,
        };
        slf.get().timers.clock.set(py, clock);
        look_at_class(slf)?;
    }
    Ok(())
}
