//! Methods that receive their arguments where CPython has them: no tuple, no dict, no parsing that
//! the method does not request. Used for methods that every callback calls; all others are PyO3's.
//!
//! A method is a type that implements [`FastMethod`], in safe Rust; the unsafe code is here.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::PyClass;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use super::arguments::Arguments;

pub trait FastMethod {
    type Class: PyClass;
    const NAME: &'static CStr;
    /// As `inspect` reads it: `name($self, ...)\n--\n\n`, followed by the text.
    const DOC: &'static CStr;

    fn call<'py>(
        slf: &Bound<'py, Self::Class>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>>;
}

/// As [`FastMethod`], for methods without arguments.
pub trait FastMethod0 {
    type Class: PyClass;
    const NAME: &'static CStr;
    const DOC: &'static CStr;

    fn call<'py>(slf: &Bound<'py, Self::Class>) -> PyResult<Bound<'py, PyAny>>;
}

/// The arguments of a call.
#[derive(Clone, Copy)]
pub struct CallArguments<'a, 'py> {
    py: Python<'py>,
    /// The positional arguments, then the values of keyword arguments.
    vector: *const *mut ffi::PyObject,
    pub positional: usize,
    names: *mut ffi::PyObject,
    caller: PhantomData<&'a ()>,
}

impl<'a, 'py> CallArguments<'a, 'py> {
    /// A positional argument.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Borrowed<'a, 'py, PyAny>> {
        // SAFETY: the caller of the method keeps its arguments alive during the call, as many as it
        // said.
        (index < self.positional)
            .then(|| unsafe { Borrowed::from_ptr(self.py, *self.vector.add(index)) })
    }

    /// The positional arguments from `start` on.
    #[inline]
    pub fn rest(&self, start: usize) -> PyResult<Arguments> {
        let count = self.positional.saturating_sub(start);
        let start = self.positional - count;
        // SAFETY: as in `get`.
        unsafe { Arguments::from_vector(self.py, self.vector.add(start), count) }
    }

    #[inline]
    pub fn has_names(&self) -> bool {
        !self.names.is_null()
    }

    /// The keyword arguments.
    pub fn named(
        &self,
    ) -> impl Iterator<Item = (Borrowed<'a, 'py, PyString>, Borrowed<'a, 'py, PyAny>)> + use<'a, 'py>
    {
        let arguments = *self;
        let count = match arguments.has_names() {
            // SAFETY: the names are a tuple of strings, or null.
            true => unsafe { ffi::PyTuple_GET_SIZE(arguments.names) as usize },
            false => 0,
        };
        // SAFETY: as above; the values follow the positional arguments, one per name, and all live
        // during the call.
        (0..count).map(move |index| unsafe {
            let name = ffi::PyTuple_GET_ITEM(arguments.names, index as ffi::Py_ssize_t);
            let name = Borrowed::from_ptr(arguments.py, name).cast_unchecked::<PyString>();
            let value = *arguments.vector.add(arguments.positional + index);
            (name, Borrowed::from_ptr(arguments.py, value))
        })
    }

    /// As `(*args, **kwargs)`, to pass them on to a PyO3 method.
    pub fn as_tuple(&self) -> PyResult<Bound<'py, PyTuple>> {
        let all = (0..self.positional).filter_map(|index| self.get(index));
        PyTuple::new(self.py, all.collect::<Vec<_>>())
    }

    /// Splits `(required..., *args, context=None)`, the signature of methods that take a callback.
    #[inline(always)]
    pub fn split<const N: usize>(
        &self,
        method: &str,
        required: [&str; N],
    ) -> PyResult<Split<'a, 'py, N>> {
        let context = match self.has_names() {
            false => None,
            true => self.only_context(),
        };
        if self.positional < N || (self.has_names() && context.is_none()) {
            return self.split_by_name(method, required);
        }
        let leading = std::array::from_fn(|index| self.get(index));
        Ok(Split {
            // All exist: `N` is not more than `positional`.
            leading: leading.map(|one| one.expect("counted before")),
            rest: self.rest(N)?,
            context: context
                .filter(|context| !context.is_none())
                .map(|context| context.to_owned()),
        })
    }

    /// The value of `context` if it is the only keyword argument: tasks call like this at each of
    /// their steps.
    #[inline]
    fn only_context(&self) -> Option<Borrowed<'a, 'py, PyAny>> {
        let (name, value) = self.named().next()?;
        // SAFETY: the names are a tuple; this branch runs only if there is one.
        let count = unsafe { ffi::PyTuple_GET_SIZE(self.names) };
        // Names in programs are interned, and so is this one; that of asyncio's tasks is not.
        let is_context = || name.is(intern!(self.py, "context")) || name == "context";
        (count == 1 && is_context()).then_some(value)
    }

    /// Splits `(required..., *args)`.
    #[inline]
    pub fn leading<const N: usize>(
        &self,
        method: &str,
        required: [&str; N],
    ) -> PyResult<([Borrowed<'a, 'py, PyAny>; N], Arguments)> {
        let split = self.split(method, required)?;
        match split.context {
            None => Ok((split.leading, split.rest)),
            Some(_) => Err(unexpected(method, "context")),
        }
    }

    /// The arguments of a method that takes exactly these, by position or by name.
    #[inline]
    pub fn exactly<const N: usize>(
        &self,
        method: &str,
        required: [&str; N],
    ) -> PyResult<[Borrowed<'a, 'py, PyAny>; N]> {
        if self.positional == N && !self.has_names() {
            let all = std::array::from_fn(|index| self.get(index));
            return Ok(all.map(|one| one.expect("counted before")));
        }
        self.exactly_by_name(method, required)
    }

    #[cold]
    fn exactly_by_name<const N: usize>(
        &self,
        method: &str,
        required: [&str; N],
    ) -> PyResult<[Borrowed<'a, 'py, PyAny>; N]> {
        if self.positional > N {
            let text = format!(
                "{method}() takes {N} positional arguments but {} were given",
                self.positional
            );
            return Err(PyTypeError::new_err(text));
        }
        self.leading(method, required).map(|(leading, _)| leading)
    }

    /// The arguments of a method whose last argument is optional.
    #[inline]
    pub fn or_default(
        &self,
        method: &str,
        [required, optional]: [&str; 2],
    ) -> PyResult<(Borrowed<'a, 'py, PyAny>, Option<Borrowed<'a, 'py, PyAny>>)> {
        if let (Some(first), 1 | 2, false) = (self.get(0), self.positional, self.has_names()) {
            return Ok((first, self.get(1)));
        }
        let named = self.named().any(|(name, _)| name == optional);
        match self.positional >= 2 || named {
            true => self
                .exactly(method, [required, optional])
                .map(|[first, second]| (first, Some(second))),
            false => self
                .exactly(method, [required])
                .map(|[first]| (first, None)),
        }
    }

    fn split_by_name<const N: usize>(
        &self,
        method: &str,
        required: [&str; N],
    ) -> PyResult<Split<'a, 'py, N>> {
        let mut leading: [Option<Borrowed<'a, 'py, PyAny>>; N] =
            std::array::from_fn(|index| self.get(index));
        let mut context = None;
        for (name, value) in self.named() {
            let name = name.to_cow()?;
            if name == "context" {
                context = (!value.is_none()).then(|| value.to_owned());
                continue;
            }
            let Some(place) = required.iter().position(|one| **one == *name) else {
                return Err(unexpected(method, &name));
            };
            if leading[place].replace(value).is_some() {
                let text = format!("{method}() got multiple values for argument '{name}'");
                return Err(PyTypeError::new_err(text));
            }
        }
        if let Some(missing) = leading.iter().position(Option::is_none) {
            let name = required[missing];
            let text = format!("{method}() missing 1 required positional argument: '{name}'");
            return Err(PyTypeError::new_err(text));
        }
        Ok(Split {
            leading: leading.map(|one| one.expect("none is missing")),
            rest: self.rest(N)?,
            context,
        })
    }
}

#[cold]
fn unexpected(method: &str, name: &str) -> PyErr {
    let text = format!("{method}() got an unexpected keyword argument '{name}'");
    PyTypeError::new_err(text)
}

/// The arguments of a method that takes a callback.
pub struct Split<'a, 'py, const N: usize> {
    pub leading: [Borrowed<'a, 'py, PyAny>; N],
    pub rest: Arguments,
    pub context: Option<Bound<'py, PyAny>>,
}

/// Adds the method to the class: the method's own class, or one derived from it.
pub fn install<M: FastMethod>(class: &Bound<'_, PyType>) -> PyResult<()> {
    let function = ffi::PyMethodDefPointer {
        PyCFunctionFastWithKeywords: enter_method::<M>,
    };
    add(
        class,
        M::NAME,
        M::DOC,
        function,
        ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
    )
}

/// Adds a method without arguments to the class.
pub fn install0<M: FastMethod0>(class: &Bound<'_, PyType>) -> PyResult<()> {
    let function = ffi::PyMethodDefPointer {
        PyCFunction: enter_method0::<M>,
    };
    add(class, M::NAME, M::DOC, function, ffi::METH_NOARGS)
}

fn add(
    class: &Bound<'_, PyType>,
    name: &'static CStr,
    doc: &'static CStr,
    function: ffi::PyMethodDefPointer,
    flags: c_int,
) -> PyResult<()> {
    // It lives as long as the class, which lives as long as the process.
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: function,
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }));
    // SAFETY: attached; the definition is never freed. The descriptor checks that the receiver is
    // an instance of the class.
    let method = unsafe {
        let method = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(class.py(), method)?
    };
    class.setattr(PyString::new(class.py(), &name.to_string_lossy()), method)
}

unsafe extern "C" fn enter_method<M: FastMethod>(
    slf: *mut ffi::PyObject,
    vector: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls this attached, as the definition says: `slf` is of the class (`add`),
    // and `slf` and all arguments live until we return.
    unsafe {
        let py = Python::assume_attached();
        let slf = Borrowed::from_ptr(py, slf).cast_unchecked::<M::Class>();
        let arguments = CallArguments {
            py,
            vector,
            positional: positional as usize,
            names,
            caller: PhantomData,
        };
        leave(py, || M::call(&slf, arguments))
    }
}

unsafe extern "C" fn enter_method0<M: FastMethod0>(
    slf: *mut ffi::PyObject,
    _nothing: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as in `enter_method`.
    unsafe {
        let py = Python::assume_attached();
        let slf = Borrowed::from_ptr(py, slf).cast_unchecked::<M::Class>();
        leave(py, || M::call(&slf))
    }
}

/// Returns a result to CPython in the form it expects; a panic becomes an exception, as in PyO3.
#[inline]
fn leave<'py>(
    py: Python<'py>,
    method: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    let error = match catch_unwind(AssertUnwindSafe(method)) {
        Ok(Ok(result)) => return result.into_ptr(),
        Ok(Err(error)) => error,
        Err(_) => PanicException::new_err("a native method panicked"),
    };
    error.restore(py);
    ptr::null_mut()
}
