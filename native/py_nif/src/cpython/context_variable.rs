//! `contextvars.ContextVar` for native values.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Created when first used.
pub struct ContextVariable {
    name: &'static CStr,
    object: PyOnceLock<Py<PyAny>>,
}

impl ContextVariable {
    pub const fn new(name: &'static CStr) -> Self {
        ContextVariable {
            name,
            object: PyOnceLock::new(),
        }
    }

    /// Python's object.
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let object = self.object.get_or_try_init(py, || {
            // SAFETY: attached; a new reference or null with an exception set.
            unsafe {
                let made = ffi::PyContextVar_New(self.name.as_ptr(), ffi::Py_None());
                Bound::from_owned_ptr_or_err(py, made).map(Bound::unbind)
            }
        })?;
        Ok(object.bind(py))
    }

    /// Returns the token for [`reset`](Self::reset).
    pub fn set<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let variable = self.object(py)?.as_ptr();
        // SAFETY: attached, with a context variable; a new reference or null with an exception set.
        unsafe {
            let token = ffi::PyContextVar_Set(variable, value.as_ptr());
            Bound::from_owned_ptr_or_err(py, token)
        }
    }

    pub fn reset(&self, token: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = token.py();
        let variable = self.object(py)?.as_ptr();
        // SAFETY: attached; the token is of this variable, and CPython checks the rest.
        match unsafe { ffi::PyContextVar_Reset(variable, token.as_ptr()) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }

    pub fn get<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let variable = self.object(py)?.as_ptr();
        let mut value = ptr::null_mut();
        // SAFETY: attached, with a context variable; when the call returns 0, it has written a new
        // reference (or null, if the variable has no value).
        unsafe {
            match ffi::PyContextVar_Get(variable, ptr::null_mut(), &raw mut value) {
                0 => Ok(Bound::from_owned_ptr_or_opt(py, value)),
                _ => Err(PyErr::fetch(py)),
            }
        }
    }
}
