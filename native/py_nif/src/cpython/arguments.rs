//! The arguments stored with a callback. Most callbacks have none or one; those need no tuple.
#![allow(unsafe_code)]

use std::ptr;

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// One word, because every timer has one: nothing, a tuple of all arguments, or the only argument,
/// unless that is a tuple itself.
pub struct Arguments(Option<Py<PyAny>>);

/// Up to this many are passed on the stack, with room for the `self` of a bound method in front:
/// then the call allocates nothing.
const ON_STACK: usize = 6;

/// CPython's `PY_VECTORCALL_ARGUMENTS_OFFSET`.
pub const ROOM_IN_FRONT: usize = 1 << (usize::BITS - 1);

impl Arguments {
    pub const NONE: Arguments = Arguments(None);

    pub fn one(argument: Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match is_tuple(&argument) {
            false => Arguments(Some(argument.unbind())),
            true => PyTuple::new(argument.py(), [argument])?.into(),
        })
    }

    /// # Safety
    /// Attached; `first` points to `count` live objects.
    #[inline]
    pub unsafe fn from_vector(
        py: Python<'_>,
        first: *const *mut ffi::PyObject,
        count: usize,
    ) -> PyResult<Self> {
        // SAFETY: by the contract above; a tuple holds its items with references of its own.
        unsafe {
            match count {
                0 => Ok(Self::NONE),
                1 => Self::one(Bound::from_borrowed_ptr(py, *first)),
                _ => {
                    let tuple = ffi::PyTuple_New(count as ffi::Py_ssize_t);
                    let tuple = Bound::from_owned_ptr_or_err(py, tuple)?;
                    for index in 0..count {
                        let item = *first.add(index);
                        ffi::Py_INCREF(item);
                        ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as ffi::Py_ssize_t, item);
                    }
                    Ok(Arguments(Some(tuple.unbind())))
                }
            }
        }
    }

    /// `callback(*arguments)`; drops the result.
    #[inline]
    pub fn call(&self, py: Python<'_>, callback: &Py<PyAny>) -> PyResult<()> {
        let function = callback.as_ptr();
        // SAFETY: attached, and all pointers are live objects we hold references to; the result
        // is a new reference, or null with an exception set.
        unsafe {
            let result = match &self.0 {
                None => ffi::PyObject_CallNoArgs(function),
                Some(many) if is_tuple(many.bind(py)) => call_many(function, many.as_ptr()),
                Some(one) => ffi::PyObject_CallOneArg(function, one.as_ptr()),
            };
            Bound::from_owned_ptr_or_err(py, result).map(drop)
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Arguments(self.0.as_ref().map(|object| object.clone_ref(py)))
    }

    pub fn to_tuple(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let Some(object) = &self.0 else {
            return Ok(PyTuple::empty(py).unbind());
        };
        match object.bind(py).cast_exact::<PyTuple>() {
            Ok(many) => Ok(many.clone().unbind()),
            Err(_) => PyTuple::new(py, [object]).map(Bound::unbind),
        }
    }

    /// Drops it without checking whether this thread is attached.
    #[inline]
    pub fn drop_ref(self, py: Python<'_>) {
        if let Some(object) = self.0 {
            object.drop_ref(py);
        }
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

impl From<Bound<'_, PyTuple>> for Arguments {
    fn from(tuple: Bound<'_, PyTuple>) -> Self {
        match tuple.len() {
            0 => Arguments::NONE,
            _ if is_tuple(&tuple) => Arguments(Some(tuple.into_any().unbind())),
            // An instance of a subclass would be mistaken for an argument.
            count => Arguments(Some(tuple.get_slice(0, count).into_any().unbind())),
        }
    }
}

#[inline]
fn is_tuple(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyTuple>()
}

/// # Safety
/// Attached; both are live objects, and `tuple` is a tuple.
unsafe fn call_many(function: *mut ffi::PyObject, tuple: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: by the contract above; the callee may use the first place, as the flag says.
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
