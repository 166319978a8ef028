//! Functions by their names. Who calls one often names it by the same atoms each time, or by a
//! binary for the module, which may be dotted, and an atom: then its names need not be read again,
//! neither as text nor as Python's strings.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, RwLock};

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
    pub name: Arc<str>,
    /// It was a coroutine function when last looked at: the next call goes straight to the loop,
    /// which looks again. Relaxed: a hint.
    is_coroutine: AtomicBool,
    names: PyOnceLock<Names>,
}

/// As Python looks them up.
pub struct Names {
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
    by_atoms: HashMap<(AtomWord, AtomWord), Arc<Function>>,
    by_binary: HashMap<Vec<u8>, HashMap<AtomWord, Arc<Function>>>,
    by_names: HashMap<String, HashMap<String, Arc<Function>>>,
    /// In `by_names` and in `by_binary`.
    count: usize,
    count_binary: usize,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl Function {
    /// By its module and its name: atoms, UTF-8 binaries or strings.
    pub fn named(module: Term<'_>, function: Term<'_>) -> NifResult<Arc<Function>> {
        if let Some(last) = last(module, function) {
            return Ok(last);
        }
        if let Some(found) = known().find(module, function) {
            LAST.set(Some(Last {
                module: module.is_atom().then(|| module.as_c_arg()),
                function: function.as_c_arg(),
                found: found.clone(),
            }));
            return Ok(found);
        }
        let named = Named::with(module, function);
        let (module, function) = (text(module)?, text(function)?);
        if let Named::Otherwise = named {
            let known = known();
            let functions = known.by_names.get(&module);
            if let Some(found) = functions.and_then(|functions| functions.get(&function)) {
                return Ok(found.clone());
            }
        }
        let mut known = KNOWN
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(known.get_or_insert(named, module, function))
    }

    fn new(module: String, function: String) -> Arc<Self> {
        Arc::new(Function {
            name: format!("{module}.{function}").into(),
            module,
            function,
            is_coroutine: AtomicBool::new(false),
            names: PyOnceLock::new(),
        })
    }

    pub fn is_coroutine(&self) -> bool {
        self.is_coroutine.load(Ordering::Relaxed)
    }

    pub fn set_coroutine(&self, is: bool) {
        if self.is_coroutine() != is {
            self.is_coroutine.store(is, Ordering::Relaxed);
        }
    }

    pub fn names(&self, py: Python<'_>) -> &Names {
        self.names.get_or_init(py, || Names {
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
    fn find(&self, module: Term<'_>, function: Term<'_>) -> Option<Arc<Function>> {
        if !function.is_atom() {
            return None;
        }
        let function = function.as_c_arg();
        if module.is_atom() {
            return self.by_atoms.get(&(module.as_c_arg(), function)).cloned();
        }
        let module: Binary<'_> = module.decode().ok()?;
        let functions = self.by_binary.get(module.as_slice())?;
        functions.get(&function).cloned()
    }

    fn get_or_insert(&mut self, named: Named, module: String, function: String) -> Arc<Function> {
        let known = self.by_names.get(&module);
        let found = match known.and_then(|functions| functions.get(&function)) {
            Some(found) => found.clone(),
            None if self.count >= MOST => return Function::new(module, function),
            None => {
                let new = Function::new(module.clone(), function.clone());
                self.count += 1;
                let functions = self.by_names.entry(module).or_default();
                functions.insert(function, new.clone());
                new
            }
        };
        match named {
            Named::Atoms(module, function) if self.by_atoms.len() < MOST => {
                self.by_atoms.insert((module, function), found.clone());
            }
            Named::Binary(module, function) if self.count_binary < MOST => {
                let functions = self.by_binary.entry(module).or_default();
                if functions.insert(function, found.clone()).is_none() {
                    self.count_binary += 1;
                }
            }
            _ => {}
        }
        found
    }
}

thread_local! {
    /// What was last asked for on this scheduler's thread.
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

struct Last {
    /// `None`: it was named by a binary.
    module: Option<AtomWord>,
    function: AtomWord,
    found: Arc<Function>,
}

/// The function, if it is the one that was last asked for in this way.
fn last(module: Term<'_>, function: Term<'_>) -> Option<Arc<Function>> {
    let last = LAST.take()?;
    let same = last.function == function.as_c_arg()
        && match last.module {
            Some(atom) => atom == module.as_c_arg(),
            None => module
                .decode::<Binary<'_>>()
                .is_ok_and(|name| name.as_slice() == last.found.module.as_bytes()),
        };
    let found = same.then(|| last.found.clone());
    LAST.set(Some(last));
    found
}

fn known() -> std::sync::RwLockReadGuard<'static, Known> {
    // Insertions only: whole also after a panic.
    KNOWN
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
