//! `__del__` of transports: PyO3 makes it a method like any other, which nobody calls.
//!
//! CPython calls `tp_finalize`, in a collection before it breaks a cycle, and otherwise only if
//! the `tp_dealloc` of the class does. So both slots are seen to when the module is made.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::PyClass;

use super::base::Transport;
use super::kind::{Kind, KINDS};

/// What PyO3 has as `tp_dealloc`, for each kind of transport.
static DEALLOC: [OnceLock<ffi::destructor>; KINDS] = [const { OnceLock::new() }; KINDS];

/// For the class of one kind.
pub fn install<T: PyClass>(py: Python<'_>, kind: Kind) -> PyResult<()> {
    let class = py.get_type::<T>();
    // Assigning, even what is there already, is what fills `tp_finalize`.
    class.setattr("__del__", class.getattr("__del__")?)?;
    let ours = match kind {
        Kind::Stream => dealloc::<{ Kind::Stream as usize }>,
        Kind::Datagram => dealloc::<{ Kind::Datagram as usize }>,
        Kind::ReadPipe => dealloc::<{ Kind::ReadPipe as usize }>,
        Kind::WritePipe => dealloc::<{ Kind::WritePipe as usize }>,
    };
    // SAFETY: attached, and a heap type of ours that has no instances yet.
    unsafe {
        let slot = &raw mut (*class.as_type_ptr()).tp_dealloc;
        if let Some(original) = *slot {
            DEALLOC[kind as usize].get_or_init(|| original);
            *slot = Some(ours);
        }
    }
    Ok(())
}

unsafe extern "C" fn dealloc<const KIND: usize>(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this for an object of the class whose last reference is gone, still
    // whole and tracked, as the finalizer wants it; what PyO3 had here then takes it apart.
    unsafe {
        let py = Python::assume_attached();
        let transport = Borrowed::from_ptr(py, object).cast_unchecked::<Transport>();
        let closed = transport.get().is_closed(py);
        // A closed one has nothing to say (`Transport::forgotten`).
        if !closed && ffi::PyObject_CallFinalizerFromDealloc(object) < 0 {
            // Somebody (a warnings filter) keeps it: it lives on.
            return;
        }
        if let Some(original) = DEALLOC[KIND].get() {
            original(object);
        }
    }
}
