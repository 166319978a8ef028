//! Values across the border. `docs/values.md` is the table of what becomes what.
//!
//! Called on threads that hold the GIL. Terms come from an `OwnedEnv` that a scheduler thread
//! copied them into, and go to one that is then sent: no scheduler thread runs Python code.
//!
//! [`to_python()`] and [`to_term()`] walk containers with a stack of their own, so that no value,
//! however deep, meets the end of the thread's stack, and so that an error can say where in the
//! value it is ([`error`]). What the leaves become is in the other files, by subject.

pub mod atoms;
mod bit_string;
pub mod error;
pub mod exception;
mod handle;
mod integers;
pub mod limits;
mod opaque;
mod rare_types;
mod shared_bytes;
mod to_python;
mod to_term;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::beam::forked;

pub use atoms::existing_atom;
pub use handle::PythonObject;
pub use opaque::{Fun, Pid, Ref as Reference};
pub use shared_bytes::SharedBytes;
pub use to_python::to_python;
pub use to_term::to_term;

/// Containers in containers, in both directions: ten times what Python itself can print or
/// compare, and a bound for values that contain themselves.
const MAX_DEPTH: usize = 10_000;

/// Adds what the package `erlang` is made of to the native module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<opaque::Pid>()?;
    module.add_class::<opaque::Ref>()?;
    module.add_class::<opaque::Port>()?;
    module.add_class::<opaque::Fun>()?;
    module.add_class::<bit_string::BitString>()?;
    // `Handle` is taken: asyncio calls its callbacks so.
    module.add("ObjectHandle", module.py().get_type::<handle::Handle>())?;
    module.add_function(wrap_pyfunction!(atoms::_atom, module)?)?;
    module.add_function(wrap_pyfunction!(_echo, module)?)
}

/// What Python code calls of its own accord must not reach for the VM in a forked copy.
pub fn in_node() -> PyResult<()> {
    match forked::is_copy() {
        true => Err(PyRuntimeError::new_err(
            "this process was forked from an Erlang node, and has no Erlang in it",
        )),
        false => Ok(()),
    }
}

/// To a term and back, on the calling thread.
#[pyfunction]
fn _echo<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    in_node()?;
    let env = rustler::OwnedEnv::new();
    env.run(|env| {
        let term = to_term(env, value).map_err(|error| error.within("value"))?;
        Ok(to_python(value.py(), term)?)
    })
}
