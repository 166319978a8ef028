//! Functions by their names, which are converted to Python strings only once.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rustler::{NifResult, Term};

use super::call::text;

/// How many functions are remembered. Later ones are converted for each call.
const MOST: usize = 10_000;

/// Values of a function's `kind`.
const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
const COROUTINE: u8 = 2;

pub struct Function {
    pub module: String,
    /// May contain dots: `Class.method`.
    pub function: String,
    /// `module.function`, for reports.
    pub name: String,
    /// The kind of the function at the last check. The next call of a coroutine function goes
    /// straight to the loop, which checks again. Relaxed: a hint.
    kind: AtomicU8,
    names: PyOnceLock<Names>,
    /// Its code when it was first found to be a coroutine function.
    coroutine_code: PyOnceLock<Py<PyAny>>,
}

/// A requested function. Most are remembered forever without a reference count: all schedulers
/// would contend for it.
#[derive(Clone)]
pub enum FunctionRef {
    Known(&'static Function),
    Own(Arc<Function>),
}

impl Deref for FunctionRef {
    type Target = Function;

    fn deref(&self) -> &Function {
        match self {
            FunctionRef::Known(function) => function,
            FunctionRef::Own(function) => function,
        }
    }
}

/// The names as Python strings.
pub struct Names {
    /// `module.function`.
    pub full: Py<PyString>,
    pub module: Py<PyString>,
    /// The parts between the dots.
    pub path: Vec<Py<PyString>>,
}

/// The functions by module and name.
#[derive(Default)]
struct Known {
    modules: HashMap<String, HashMap<String, &'static Function>>,
    /// The number of functions.
    count: usize,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl Function {
    /// By module and name: atoms, UTF-8 binaries or strings.
    pub fn named(module: Term<'_>, function: Term<'_>) -> NifResult<FunctionRef> {
        let (module, function) = (text(module)?, text(function)?);
        // Insertions only: consistent also after a panic.
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let functions = known.modules.get(&module);
        if let Some(found) = functions.and_then(|functions| functions.get(&function)) {
            return Ok(FunctionRef::Known(found));
        }
        drop(known);
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        Ok(known.get_or_insert(module, function))
    }

    fn new(module: String, function: String) -> Self {
        Function {
            name: format!("{module}.{function}"),
            module,
            function,
            kind: AtomicU8::new(UNKNOWN),
            names: PyOnceLock::new(),
            coroutine_code: PyOnceLock::new(),
        }
    }

    pub fn is_coroutine(&self) -> bool {
        self.kind.load(Ordering::Relaxed) == COROUTINE
    }

    /// Whether its kind has been checked.
    pub fn is_known(&self) -> bool {
        self.kind.load(Ordering::Relaxed) != UNKNOWN
    }

    pub fn set_coroutine(&self, is: bool) {
        let kind = match is {
            true => COROUTINE,
            false => PLAIN,
        };
        if self.kind.load(Ordering::Relaxed) != kind {
            self.kind.store(kind, Ordering::Relaxed);
        }
    }

    /// Whether a function with this code is a coroutine function, as far as is known. (The code
    /// stays at its address, because we hold a reference.)
    pub fn has_coroutine_code(&self, py: Python<'_>, address: *mut ffi::PyObject) -> bool {
        let known = self.coroutine_code.get(py);
        known.is_some_and(|code| code.as_ptr() == address)
    }

    pub fn remember_coroutine_code(&self, code: Bound<'_, PyAny>) {
        // Once: code that replaces it is checked each time.
        let _ = self.coroutine_code.set(code.py(), code.unbind());
    }

    pub fn names(&self, py: Python<'_>) -> &Names {
        self.names.get_or_init(py, || Names {
            full: PyString::new(py, &self.name).unbind(),
            module: PyString::intern(py, &self.module).unbind(),
            path: self
                .function
                .split('.')
                .map(|part| PyString::intern(py, part).unbind())
                .collect(),
        })
    }
}

impl Known {
    fn get_or_insert(&mut self, module: String, function: String) -> FunctionRef {
        let functions = self.modules.get(&module);
        if let Some(found) = functions.and_then(|functions| functions.get(&function)) {
            return FunctionRef::Known(found);
        }
        let new = Function::new(module.clone(), function.clone());
        if self.count >= MOST {
            return FunctionRef::Own(Arc::new(new));
        }
        // It is never freed.
        let new: &'static Function = Box::leak(Box::new(new));
        self.count += 1;
        let functions = self.modules.entry(module).or_default();
        functions.insert(function, new);
        FunctionRef::Known(new)
    }
}
