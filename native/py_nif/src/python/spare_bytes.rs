//! Messages that their protocol has not kept are used again for the next ones: to make and to free
//! a `bytes` of 1 KiB takes as many instructions as all else that is done natively for it, as it is
//! too large for the fast ways of the allocators.
//!
//! `transports` fill one, give it to a protocol, and hand it back here. CPython does the same with
//! the tuples of `zip`: an object with one reference cannot be told from a new one.
#![allow(unsafe_code)]

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::collector;
use super::gil_slot::GilSlot;

extern "C" {
    /// Documented by CPython, but not declared by PyO3.
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, length: ffi::Py_ssize_t) -> c_int;
}

/// A `bytes` that nobody else has yet, or has kept, and for how many there is room in it.
pub struct Message<'py> {
    bytes: Bound<'py, PyBytes>,
    room: usize,
}

impl<'py> Message<'py> {
    pub fn new(py: Python<'py>, content: &[u8]) -> Self {
        Message {
            bytes: PyBytes::new(py, content),
            room: content.len(),
        }
    }

    pub fn bytes(&self) -> &Bound<'py, PyBytes> {
        &self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.as_bytes().is_empty()
    }

    pub fn room(&self) -> usize {
        self.room
    }

    /// Where its content goes, [`room`](Self::room) bytes.
    pub fn memory(&mut self) -> *mut u8 {
        let object = self.bytes.as_ptr();
        // SAFETY: attached, with a live `bytes`.
        unsafe { ffi::PyBytes_AS_STRING(object).cast_mut().cast() }
    }

    /// As a message of so many bytes, in less memory if that is much less than it has room for.
    ///
    /// # Safety
    /// Nobody else has it, and so many bytes were written.
    pub unsafe fn cut(mut self, length: usize) -> PyResult<Self> {
        if fits(length, self.room) {
            // SAFETY: by the contract above.
            unsafe { self.set_length(length) };
            return Ok(self);
        }
        let py = self.bytes.py();
        let mut object = self.bytes.into_ptr();
        // SAFETY: by the contract above. `object` is the smaller one afterwards, or null with an
        // exception set.
        unsafe {
            match _PyBytes_Resize(&raw mut object, length as ffi::Py_ssize_t) {
                0 => Ok(Message {
                    bytes: Bound::from_owned_ptr(py, object).cast_into_unchecked(),
                    room: length,
                }),
                _ => Err(PyErr::fetch(py)),
            }
        }
    }

    /// # Safety
    /// As for [`cut`](Self::cut), and there is room for it.
    unsafe fn set_length(&mut self, length: usize) {
        let object = self.bytes.as_ptr().cast::<ffi::PyBytesObject>();
        // SAFETY: by the contract above. Behind what it was made for there is room for a zero, which
        // C code may rely on; the hash is that of the message before.
        unsafe {
            self.memory().add(length).write(0);
            (*object).ob_base.ob_size = length as ffi::Py_ssize_t;
            #[allow(deprecated, reason = "for those who read it: nobody has yet")]
            {
                (*object).ob_shash = -1;
            }
        }
    }
}

/// Whoever keeps it keeps little more than it needs.
fn fits(length: usize, room: usize) -> bool {
    length <= room && room - length <= length / 8
}

/// Of one loop: the last message that was not kept.
#[derive(Default)]
pub struct SpareBytes(GilSlot<(Py<PyBytes>, usize)>);

impl SpareBytes {
    /// A message with this content.
    pub fn filled<'py>(&self, py: Python<'py>, content: &[u8]) -> Message<'py> {
        let Some(mut message) = self.take(py, |room| fits(content.len(), room)) else {
            return Message::new(py, content);
        };
        // SAFETY: nobody else has what is in the slot, and there is room.
        unsafe {
            let memory = message.memory();
            memory.copy_from_nonoverlapping(content.as_ptr(), content.len());
            message.set_length(content.len());
        }
        message
    }

    /// A message with room for so many, and anything in it.
    pub fn with_room<'py>(&self, py: Python<'py>, room: usize) -> PyResult<Message<'py>> {
        if let Some(message) = self.take(py, |found| found == room) {
            return Ok(message);
        }
        let length = room as ffi::Py_ssize_t;
        // SAFETY: attached; a new object or null with an exception set.
        let bytes = unsafe {
            let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), length);
            Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked()
        };
        Ok(Message { bytes, room })
    }

    fn take<'py>(
        &self,
        py: Python<'py>,
        is_fit: impl FnOnce(usize) -> bool,
    ) -> Option<Message<'py>> {
        let (bytes, room) = self.0.take(py)?;
        let bytes = bytes.into_bound(py);
        is_fit(room).then_some(Message { bytes, room })
    }

    /// A message that a protocol was given, which may have kept it.
    #[inline]
    pub fn hand_back(&self, message: Message<'_>) {
        let py = message.bytes.py();
        if !may_be_used_again(&message.bytes) {
            return;
        }
        let spare = (message.bytes.unbind(), message.room);
        let other = self.0.replace(py, Some(spare));
        drop(other.map(|(bytes, _)| bytes.into_bound(py)));
    }
}

/// Whether nobody else has it. Without a GIL there is no telling.
fn may_be_used_again(bytes: &Bound<'_, PyBytes>) -> bool {
    cfg!(not(Py_GIL_DISABLED)) && !collector::is_shared(bytes.as_ptr())
}
