//! asyncio's attributes of a TLS connection that every message asks for, as native fields.
//!
//! Python finds them under their names, before its dictionary is looked into: asyncio's own
//! methods read and change them as they always did, and both sides see the same. Some thirty of
//! them are read for a message, each of which was a look into the class and into a dictionary.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::python::gil_slot::GilSlot;
use crate::python::gil_value::GilValue;

/// The class with its attributes: how each is named in Rust, its setter, and its name in Python.
macro_rules! path_with {
    (
        objects { $($object:ident $set_object:ident $object_name:ident)* }
        values { $($value:ident $set_value:ident $value_name:ident: $type:ty)* }
    ) => {
        /// The native base of `erlang_loop.tls.TlsProtocol`.
        #[pyclass(subclass, frozen, module = "erlang_loop._native")]
        #[derive(Default)]
        pub struct TlsPath {
            $(pub $object: GilSlot<Py<PyAny>>,)*
            $(pub $value: GilValue<$type>,)*
        }

        #[pymethods]
        impl TlsPath {
            #[new]
            #[pyo3(signature = (*args, **kwargs))]
            fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
                // They are for `__init__`, which is asyncio's.
                let _ = (args, kwargs);
                TlsPath::default()
            }

            $(
                #[getter($object_name)]
                fn $object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                    object(py, &self.$object)
                }

                #[setter($object_name)]
                fn $set_object(&self, py: Python<'_>, value: Py<PyAny>) {
                    drop(self.$object.replace(py, Some(value)));
                }
            )*

            $(
                #[getter($value_name)]
                fn $value(&self, py: Python<'_>) -> $type {
                    self.$value.get(py)
                }

                #[setter($value_name)]
                fn $set_value(&self, py: Python<'_>, value: $type) {
                    self.$value.set(py, value);
                }
            )*

            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                $(self.$object.visit(|object| object.map_or(Ok(()), |object| visit.call(object)))?;)*
                Ok(())
            }

            fn __clear__(&self, py: Python<'_>) {
                $(drop(self.$object.take(py));)*
            }
        }
    };
}

path_with! {
    objects {
        state set_state _state
        incoming set_incoming _incoming
        outgoing set_outgoing _outgoing
        tls set_tls _tls
        transport set_transport _transport
        application set_application _app_protocol
        backlog set_backlog _write_backlog
    }
    values {
        buffered set_buffered _app_protocol_is_buffer: bool
        reading_paused set_reading_paused _app_reading_paused: bool
        writing_paused set_writing_paused _app_writing_paused: bool
        receiving_paused set_receiving_paused _ssl_reading_paused: bool
        sending_paused set_sending_paused _ssl_writing_paused: bool
        waiting set_waiting _write_buffer_size: usize
        most_incoming set_most_incoming _incoming_high_water: usize
        most_outgoing set_most_outgoing _outgoing_high_water: usize
    }
}

/// What is in an attribute; an error before it was set.
pub fn object<'py>(py: Python<'py>, slot: &GilSlot<Py<PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    match slot.cloned(py) {
        Some(object) => Ok(object.into_bound(py)),
        None => Err(PyAttributeError::new_err(
            "this TLS connection was not initialised",
        )),
    }
}
