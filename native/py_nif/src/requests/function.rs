//! Functions by their names. Callers usually name a function by the same atoms each time, or by a
//! binary for the module, which may contain dots, and an atom. Such names are converted only once,
//! to text and to Python strings.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, RwLock};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rustler::sys::ErlNifTerm;
use rustler::{Binary, NifResult, Term};

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

/// The word of an atom, which never changes.
type AtomWord = ErlNifTerm;

/// The terms that named a function, if they are worth remembering.
enum Named {
    /// Module and function.
    Atoms(AtomWord, AtomWord),
    /// The module is a binary.
    Binary(Vec<u8>, AtomWord),
    Otherwise,
}

/// The functions, by names and by the terms that named them.
#[derive(Default)]
struct Known {
    by_atoms: HashMap<(AtomWord, AtomWord), &'static Function>,
    by_binary: HashMap<Vec<u8>, HashMap<AtomWord, &'static Function>>,
    by_names: HashMap<String, HashMap<String, &'static Function>>,
    /// The number of entries in `by_names` and in `by_binary`.
    count: usize,
    count_binary: usize,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl Function {
    /// By module and name: atoms, UTF-8 binaries or strings.
    pub fn named(module: Term<'_>, function: Term<'_>) -> NifResult<FunctionRef> {
        if let Some(last) = last(module, function) {
            return Ok(FunctionRef::Known(last));
        }
        if let Some(found) = known().find(module, function) {
            LAST.set(Some(Last {
                module: module.is_atom().then(|| module.as_c_arg()),
                function: function.as_c_arg(),
                found,
            }));
            return Ok(FunctionRef::Known(found));
        }
        let named = Named::with(module, function);
        let (module, function) = (text(module)?, text(function)?);
        if let Named::Otherwise = named {
            let known = known();
            let functions = known.by_names.get(&module);
            if let Some(found) = functions.and_then(|functions| functions.get(&function)) {
                return Ok(FunctionRef::Known(found));
            }
        }
        let mut known = KNOWN
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(known.get_or_insert(named, module, function))
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

impl Named {
    fn with(module: Term<'_>, function: Term<'_>) -> Self {
        if !function.is_atom() {
            return Named::Otherwise;
        }
        match (module.is_atom(), module.decode::<Binary<'_>>()) {
            (true, _) => Named::Atoms(module.as_c_arg(), function.as_c_arg()),
            (false, Ok(name)) => Named::Binary(name.as_slice().to_vec(), function.as_c_arg()),
            (false, Err(_)) => Named::Otherwise,
        }
    }
}

impl Known {
    /// Finds it without reading its names.
    fn find(&self, module: Term<'_>, function: Term<'_>) -> Option<&'static Function> {
        if !function.is_atom() {
            return None;
        }
        let function = function.as_c_arg();
        if module.is_atom() {
            return self.by_atoms.get(&(module.as_c_arg(), function)).copied();
        }
        let module: Binary<'_> = module.decode().ok()?;
        let functions = self.by_binary.get(module.as_slice())?;
        functions.get(&function).copied()
    }

    fn get_or_insert(&mut self, named: Named, module: String, function: String) -> FunctionRef {
        let known = self.by_names.get(&module);
        let found = match known.and_then(|functions| functions.get(&function)) {
            Some(found) => *found,
            None if self.count >= MOST => {
                return FunctionRef::Own(Arc::new(Function::new(module, function)));
            }
            None => {
                // It is never freed.
                let new: &'static Function =
                    Box::leak(Box::new(Function::new(module.clone(), function.clone())));
                self.count += 1;
                let functions = self.by_names.entry(module).or_default();
                functions.insert(function, new);
                new
            }
        };
        match named {
            Named::Atoms(module, function) if self.by_atoms.len() < MOST => {
                self.by_atoms.insert((module, function), found);
            }
            Named::Binary(module, function) if self.count_binary < MOST => {
                let functions = self.by_binary.entry(module).or_default();
                if functions.insert(function, found).is_none() {
                    self.count_binary += 1;
                }
            }
            _ => {}
        }
        FunctionRef::Known(found)
    }
}

thread_local! {
    /// The function that was requested last on this scheduler's thread.
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Last {
    /// `None`: a binary named it.
    module: Option<AtomWord>,
    function: AtomWord,
    found: &'static Function,
}

/// The function, if the same terms named the last one.
fn last(module: Term<'_>, function: Term<'_>) -> Option<&'static Function> {
    let last = LAST.get()?;
    let same = last.function == function.as_c_arg()
        && match last.module {
            Some(atom) => atom == module.as_c_arg(),
            None => module
                .decode::<Binary<'_>>()
                .is_ok_and(|name| name.as_slice() == last.found.module.as_bytes()),
        };
    same.then_some(last.found)
}

fn known() -> std::sync::RwLockReadGuard<'static, Known> {
    // Insertions only: consistent also after a panic.
    KNOWN
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
