//! The arguments a callback waits with. Most have none or one: those need no tuple.
#![allow(unsafe_code)]

use std::ptr;

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub enum Arguments {
    None,
    One(Py<PyAny>),
    Many(Py<PyTuple>),
}

/// Up to this many are handed over on the stack, with room for the `self` of a bound method in
/// front: then nothing is allocated for the call.
const ON_STACK: usize = 6;

/// CPython's `PY_VECTORCALL_ARGUMENTS_OFFSET`.
pub const ROOM_IN_FRONT: usize = 1 << (usize::BITS - 1);

impl Arguments {
    /// # Safety
    /// Attached; `count` live objects are at `first`.
    #[inline]
    pub unsafe fn from_vector(
        py: Python<'_>,
        first: *const *mut ffi::PyObject,
        count: usize,
    ) -> PyResult<Self> {
        // SAFETY: by the contract above; a tuple holds its items with references of its own.
        unsafe {
            match count {
                0 => Ok(Arguments::None),
                1 => Ok(Arguments::One(
                    Bound::from_borrowed_ptr(py, *first).unbind(),
                )),
                _ => {
                    let tuple = ffi::PyTuple_New(count as ffi::Py_ssize_t);
                    let tuple = Bound::from_owned_ptr_or_err(py, tuple)?;
                    for index in 0..count {
                        let item = *first.add(index);
                        ffi::Py_INCREF(item);
                        ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as ffi::Py_ssize_t, item);
                    }
                    Ok(Arguments::Many(tuple.cast_into_unchecked().unbind()))
                }
            }
        }
    }

    /// `callback(*arguments)`, the result dropped.
    #[inline]
    pub fn call(&self, py: Python<'_>, callback: &Py<PyAny>) -> PyResult<()> {
        let function = callback.as_ptr();
        // SAFETY: attached, and all pointers are live objects we hold references to; the result
        // is a new reference, or null with an exception set.
        unsafe {
            let result = match self {
                Arguments::None => ffi::PyObject_CallNoArgs(function),
                Arguments::One(one) => ffi::PyObject_CallOneArg(function, one.as_ptr()),
                Arguments::Many(many) => call_many(function, many.as_ptr()),
            };
            Bound::from_owned_ptr_or_err(py, result).map(drop)
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Arguments::None => Arguments::None,
            Arguments::One(one) => Arguments::One(one.clone_ref(py)),
            Arguments::Many(many) => Arguments::Many(many.clone_ref(py)),
        }
    }

    pub fn to_tuple(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        Ok(match self {
            Arguments::None => PyTuple::empty(py).unbind(),
            Arguments::One(one) => PyTuple::new(py, [one])?.unbind(),
            Arguments::Many(many) => many.clone_ref(py),
        })
    }

    /// As dropping it, without asking whether this thread is attached.
    #[inline]
    pub fn drop_ref(self, py: Python<'_>) {
        match self {
            Arguments::None => (),
            Arguments::One(one) => one.drop_ref(py),
            Arguments::Many(many) => many.drop_ref(py),
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Arguments::None => Ok(()),
            Arguments::One(one) => visit.call(one),
            Arguments::Many(many) => visit.call(many),
        }
    }
}

impl From<Bound<'_, PyTuple>> for Arguments {
    fn from(tuple: Bound<'_, PyTuple>) -> Self {
        match tuple.len() {
            0 => Arguments::None,
            _ => Arguments::Many(tuple.unbind()),
        }
    }
}

/// # Safety
/// Attached; both are live objects, and `tuple` is a tuple.
unsafe fn call_many(function: *mut ffi::PyObject, tuple: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: by the contract above; the first place is the callee's to use, as the flag says.
    unsafe {
        let count = ffi::PyTuple_GET_SIZE(tuple) as usize;
        if count > ON_STACK {
            return ffi::PyObject_Call(function, tuple, ptr::null_mut());
        }
        let mut stack = [ptr::null_mut(); ON_STACK + 1];
        for (index, place) in stack[1..=count].iter_mut().enumerate() {
            *place = ffi::PyTuple_GET_ITEM(tuple, index as ffi::Py_ssize_t);
        }
        let flags = count | ROOM_IN_FRONT;
        ffi::PyObject_Vectorcall(function, stack.as_ptr().add(1), flags, ptr::null_mut())
    }
}
