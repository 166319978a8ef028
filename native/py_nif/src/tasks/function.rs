//! Functions by their names. Who calls one often names it by the same atoms each time, or by a
//! binary for the module, which may be dotted, and an atom: then its names need not be read again,
//! neither as text nor as Python's strings.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, RwLock};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rustler::sys::ErlNifTerm;
use rustler::{Binary, NifResult, Term};

use super::request::text;

/// So many are remembered. What comes after is read anew each time.
const MOST: usize = 10_000;

pub struct Function {
    pub module: String,
    /// It may be dotted: `Class.method`.
    pub function: String,
    /// `module.function`, for reports.
    pub name: String,
    /// It was a coroutine function when last looked at: the next call goes straight to the loop,
    /// which looks again. Relaxed: a hint.
    is_coroutine: AtomicBool,
    names: PyOnceLock<Names>,
    /// The code it had when it was first seen to be a coroutine function.
    coroutine_code: PyOnceLock<Py<PyAny>>,
}

/// A function that somebody asked for. Most are known for ever, and nobody counts who has them: all
/// schedulers would, in one place.
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

/// As Python looks them up.
pub struct Names {
    /// `module.function`.
    pub full: Py<PyString>,
    pub module: Py<PyString>,
    /// The parts between the dots.
    pub path: Vec<Py<PyString>>,
}

/// The word of an atom, which is the same for ever.
type AtomWord = ErlNifTerm;

/// How one was named, if that is worth remembering.
enum Named {
    /// Module and function.
    Atoms(AtomWord, AtomWord),
    /// The module is a binary.
    Binary(Vec<u8>, AtomWord),
    Otherwise,
}

/// By names, and by what they were named with.
#[derive(Default)]
struct Known {
    by_atoms: HashMap<(AtomWord, AtomWord), &'static Function>,
    by_binary: HashMap<Vec<u8>, HashMap<AtomWord, &'static Function>>,
    by_names: HashMap<String, HashMap<String, &'static Function>>,
    /// In `by_names` and in `by_binary`.
    count: usize,
    count_binary: usize,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl Function {
    /// By its module and its name: atoms, UTF-8 binaries or strings.
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
            is_coroutine: AtomicBool::new(false),
            names: PyOnceLock::new(),
            coroutine_code: PyOnceLock::new(),
        }
    }

    pub fn is_coroutine(&self) -> bool {
        self.is_coroutine.load(Ordering::Relaxed)
    }

    pub fn set_coroutine(&self, is: bool) {
        if self.is_coroutine() != is {
            self.is_coroutine.store(is, Ordering::Relaxed);
        }
    }

    /// Whether a function whose code is there is a coroutine function, as far as is known. (It stays
    /// there: we hold it.)
    pub fn has_coroutine_code(&self, py: Python<'_>, address: *mut ffi::PyObject) -> bool {
        let known = self.coroutine_code.get(py);
        known.is_some_and(|code| code.as_ptr() == address)
    }

    pub fn remember_coroutine_code(&self, code: Bound<'_, PyAny>) {
        // Once: what replaces it is looked at each time.
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
    /// Without reading its names.
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
                return FunctionRef::Own(Arc::new(Function::new(module, function)))
            }
            None => {
                // It is never forgotten.
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
    /// What was last asked for on this scheduler's thread.
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Last {
    /// `None`: it was named by a binary.
    module: Option<AtomWord>,
    function: AtomWord,
    found: &'static Function,
}

/// The function, if it is the one that was last asked for in this way.
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
    // Insertions only: whole also after a panic.
    KNOWN
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
