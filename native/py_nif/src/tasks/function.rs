//! Functions by their names. Who calls one often names it by the same atoms each time: then its
//! names need not be read again, neither as text nor as Python's strings.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, RwLock};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rustler::sys::ErlNifTerm;
use rustler::{NifResult, Term};

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

/// By names, and those of them that were named by atoms also by these. An atom's term is the same
/// word for ever.
type Atoms = (ErlNifTerm, ErlNifTerm);

#[derive(Default)]
struct Known {
    by_atoms: HashMap<Atoms, Arc<Function>>,
    by_names: HashMap<String, HashMap<String, Arc<Function>>>,
    count: usize,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl Function {
    /// By its module and its name: atoms, UTF-8 binaries or strings.
    pub fn named(module: Term<'_>, function: Term<'_>) -> NifResult<Arc<Function>> {
        let atoms = (module.is_atom() && function.is_atom())
            .then(|| (module.as_c_arg(), function.as_c_arg()));
        if let Some(found) = atoms.and_then(|atoms| known().by_atoms.get(&atoms).cloned()) {
            return Ok(found);
        }
        let (module, function) = (text(module)?, text(function)?);
        if atoms.is_none() {
            let known = known();
            let functions = known.by_names.get(&module);
            if let Some(found) = functions.and_then(|functions| functions.get(&function)) {
                return Ok(found.clone());
            }
        }
        let mut known = KNOWN
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(known.get_or_insert(atoms, module, function))
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

impl Known {
    fn get_or_insert(
        &mut self,
        atoms: Option<Atoms>,
        module: String,
        function: String,
    ) -> Arc<Function> {
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
        if let Some(atoms) = atoms.filter(|_| self.by_atoms.len() < MOST) {
            self.by_atoms.insert(atoms, found.clone());
        }
        found
    }
}

fn known() -> std::sync::RwLockReadGuard<'static, Known> {
    // Insertions only: whole also after a panic.
    KNOWN
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
