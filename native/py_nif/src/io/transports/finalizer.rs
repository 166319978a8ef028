//! `__del__` of transports: PyO3 makes it an ordinary method, which CPython never calls.
//!
//! CPython calls `tp_finalize`, during a collection before it breaks a cycle, and otherwise only if
//! the `tp_dealloc` of the class does. So both slots are set when the module is created.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;

use super::base::Transport;
use super::kind::{KINDS, Kind};

/// PyO3's `tp_dealloc`, for each kind of transport.
static DEALLOC: [OnceLock<ffi::destructor>; KINDS] = [const { OnceLock::new() }; KINDS];

/// For the class of one kind.
pub fn install<T: PyClass>(py: Python<'_>, kind: Kind) -> PyResult<()> {
    let class = py.get_type::<T>();
    // Assigning `__del__`, even to its own value, is what fills `tp_finalize`.
    class.setattr("__del__", class.getattr("__del__")?)?;
    let ours = match kind {
        Kind::Stream => dealloc::<{ Kind::Stream as usize }>,
        Kind::Datagram => dealloc::<{ Kind::Datagram as usize }>,
        Kind::ReadPipe => dealloc::<{ Kind::ReadPipe as usize }>,
        Kind::WritePipe => dealloc::<{ Kind::WritePipe as usize }>,
    };
    // SAFETY: attached, and our own heap type, which has no instances yet.
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
    // complete and tracked, as the finalizer requires; PyO3's function then deallocates it.
    unsafe {
        let py = Python::assume_attached();
        let transport = Borrowed::from_ptr(py, object).cast_unchecked::<Transport>();
        let closed = transport.get().is_closed(py);
        // A closed transport has nothing to warn about (`Transport::forgotten`).
        if !closed && ffi::PyObject_CallFinalizerFromDealloc(object) < 0 {
            // The finalizer stored a new reference (a warnings filter may): the object lives on.
            return;
        }
        if let Some(original) = DEALLOC[KIND].get() {
            original(object);
        }
    }
}
