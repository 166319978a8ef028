//! Conversion of values between Erlang and Python. `docs/values.md` is the table of types.
//!
//! Called on threads that hold the GIL. Terms come from an environment that a scheduler thread
//! copied them into, and go into one that is then sent: no scheduler thread runs Python code.
//!
//! [`to_python()`] and [`to_term()`] walk containers with an explicit stack. So no value, however
//! deep, overflows the thread's stack, and an error can name the position in the value ([`error`]).
//! The conversion of leaves is in the other files:
//!
//! | module | contents |
//! |---|---|
//! | [`to_python`](mod@to_python), [`to_term`](mod@to_term) | the two directions |
//! | [`named`] | arguments, results and exceptions of requests |
//! | [`atoms`], [`integers`], [`bit_string`] | leaves |
//! | [`opaque`], [`handle`] | pids, references, ports, funs in Python; Python objects in Erlang |
//! | [`channels`] | the reading ends of channels |
//! | [`types`] | enums, dataclasses, dates, numpy |
//! | [`converters`] | encoders and decoders of the program |
//! | [`views`] | the memory of binaries in Python |
//! | [`exception`], [`error`] | exceptions as values; values that cannot be converted |
//! | [`result_options`], [`value_options`] | how a caller wants its result |
//! | [`limits`] | how large values may be |

pub mod atoms;
mod bit_string;
pub mod channels;
mod converters;
pub mod error;
pub mod exception;
mod handle;
mod integers;
pub mod limits;
pub mod named;
mod opaque;
mod result_options;
mod to_python;
mod to_term;
mod types;
mod value_options;
mod views;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::beam::forked;
use crate::cpython::objects::shared_buffer::SharedBuffer;

pub use atoms::existing_atom;
pub use handle::PythonObject;
pub use opaque::{CALL_FUN, Fun, Pid, Ref as Reference};
pub use result_options::{ResultOptions, Returned};
pub use to_python::{argument_to_python, bytes, to_python};
pub use to_term::{result_to_term, sent_to_term, to_term};
pub use value_options::{Nothing, ValueOptions};
pub use views::memoryview;

/// The nesting limit of containers, in both directions: ten times what Python itself can print or
/// compare. It also ends the conversion of values that contain themselves.
const MAX_DEPTH: usize = 10_000;

/// Adds the native parts of the package `erlang` to the native module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<opaque::Pid>()?;
    module.add_class::<opaque::Ref>()?;
    module.add_class::<opaque::Port>()?;
    module.add_class::<opaque::Fun>()?;
    module.add_class::<bit_string::BitString>()?;
    module.add_class::<SharedBuffer>()?;
    // asyncio calls its callbacks `Handle`, so that name is taken.
    module.add(
        "ObjectHandle",
        module.py().get_type::<handle::ObjectHandle>(),
    )?;
    module.add_function(wrap_pyfunction!(atoms::_atom, module)?)?;
    module.add_function(wrap_pyfunction!(converters::_set_encoder, module)?)?;
    module.add_function(wrap_pyfunction!(converters::_set_decoder, module)?)?;
    module.add_function(wrap_pyfunction!(_echo, module)?)
}

/// Raises in a forked copy: there, functions that Python code calls directly must not call the VM.
pub fn in_node() -> PyResult<()> {
    match forked::is_copy() {
        true => Err(PyRuntimeError::new_err(
            "this process was forked from an Erlang node, and has no Erlang in it",
        )),
        false => Ok(()),
    }
}

/// Converts to a term and back, on the calling thread.
#[pyfunction]
fn _echo<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    in_node()?;
    let env = rustler::OwnedEnv::new();
    env.run(|env| {
        let term = to_term(env, value).map_err(|error| error.within("value"))?;
        Ok(to_python(value.py(), term)?)
    })
}
