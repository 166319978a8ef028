//! Atoms and `erlang.Atom`. There is one Python object for each atom that has crossed; it exists
//! forever, as the atom itself does in the VM.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyString, PyType};
use rustler::{Atom, Env, Term};

use super::error::ConvertError;
use super::limits;
use crate::atoms;
use crate::beam::own_env::OwnEnv;

/// The VM's limit, in characters.
const MAX_NAME: usize = 255;
const TOO_LONG: &str = "an atom has at most 255 characters";

fn is_too_long(name: &str) -> bool {
    name.chars().count() > MAX_NAME
}

#[derive(Default)]
struct Table {
    /// The Python value of each atom.
    values: HashMap<Atom, Py<PyAny>>,
    /// The `erlang.Atom` of each atom that has another Python value (`true`, `none`).
    hidden: HashMap<Atom, Py<PyAny>>,
    /// The atom of each `erlang.Atom` in these maps, by the object's address.
    atoms: HashMap<usize, Atom>,
    new_atoms: usize,
}

/// Guards the table. Never held while Python code runs.
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<Table>> {
    // Insertions are complete or have not begun, also after a panic.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `erlang.Atom`
pub fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "erlang.atom", "Atom")
}

/// True, False, None or an `erlang.Atom`.
pub fn to_python<'py>(py: Python<'py>, atom: Atom) -> Result<Bound<'py, PyAny>, ConvertError> {
    if let Some(Table { values, .. }) = &*table()
        && let Some(known) = values.get(&atom)
    {
        return Ok(known.bind(py).clone());
    }
    let value = match meaning(py, atom) {
        Some(value) => value,
        None => object(py, atom)?,
    };
    let mut table = table();
    let Table { values, atoms, .. } = table.get_or_insert_default();
    // Another thread may have inserted one while Python created this object: keep one of them.
    let kept = values.entry(atom).or_insert_with(|| value.unbind());
    atoms.insert(kept.as_ptr() as usize, atom);
    Ok(kept.bind(py).clone())
}

/// Always the `erlang.Atom`.
fn named<'py>(py: Python<'py>, atom: Atom) -> Result<Bound<'py, PyAny>, ConvertError> {
    if meaning(py, atom).is_none() {
        return to_python(py, atom);
    }
    let object = object(py, atom)?;
    let mut table = table();
    let Table { hidden, atoms, .. } = table.get_or_insert_default();
    let kept = hidden.entry(atom).or_insert_with(|| object.unbind());
    atoms.insert(kept.as_ptr() as usize, atom);
    Ok(kept.bind(py).clone())
}

/// The Python value of atoms that do not become an `erlang.Atom`.
fn meaning(py: Python<'_>, atom: Atom) -> Option<Bound<'_, PyAny>> {
    if atom == atoms::true_() || atom == atoms::false_() {
        return Some(
            PyBool::new(py, atom == atoms::true_())
                .to_owned()
                .into_any(),
        );
    }
    let nothing = [atoms::none(), atoms::nil(), atoms::undefined()];
    nothing.contains(&atom).then(|| py.None().into_bound(py))
}

fn object(py: Python<'_>, atom: Atom) -> PyResult<Bound<'_, PyAny>> {
    let name = OwnEnv::new().with(|env| name(atom.to_term(env)));
    py.get_type::<PyString>()
        .call_method1("__new__", (class(py)?, name))
}

/// The atom of an `erlang.Atom`.
pub fn to_atom(value: &Bound<'_, PyString>) -> Result<Atom, ConvertError> {
    if let Some(Table { atoms, .. }) = &*table()
        && let Some(&atom) = atoms.get(&(value.as_ptr() as usize))
    {
        return Ok(atom);
    }
    // It was created without the constructor (`str.__new__(Atom, name)`), so it is not in the
    // table.
    let name = value.to_str()?;
    OwnEnv::new()
        .with(|env| existing(env, name))
        .ok_or_else(|| match is_too_long(name) {
            true => ConvertError::refused(TOO_LONG),
            false => ConvertError::refused(format!("there is no atom {name:?}")),
        })
}

/// For the constructors of `erlang.Atom`: the atom of this name, created if necessary.
#[pyfunction]
#[pyo3(signature = (name, existing_only, /))]
pub fn _atom<'py>(name: &Bound<'py, PyString>, existing_only: bool) -> PyResult<Bound<'py, PyAny>> {
    super::in_node()?;
    let py = name.py();
    let text = name.to_str()?;
    if is_too_long(text) {
        return Err(PyValueError::new_err(TOO_LONG));
    }
    let atom = OwnEnv::new().with(|env| match existing(env, text) {
        Some(atom) => Ok(atom),
        None if existing_only => Err(PyValueError::new_err(format!("there is no atom {text:?}"))),
        None => {
            count_new()?;
            new(env, text).ok_or_else(|| PyValueError::new_err(format!("no atom: {text:?}")))
        }
    })?;
    Ok(named(py, atom)?)
}

/// For names of modules, functions, nodes and processes: an `erlang.Atom`, or the existing atom
/// that a str names. Creates none.
pub fn existing_atom(name: &Bound<'_, PyAny>, what: &str) -> PyResult<Atom> {
    let Ok(text) = name.cast::<PyString>() else {
        let class = super::error::type_name(name);
        return Err(PyTypeError::new_err(format!(
            "{what} must be an erlang.Atom or a str, not {class}"
        )));
    };
    if name.get_type().is(class(name.py())?) {
        return Ok(to_atom(text)?);
    }
    let text = text.to_str()?;
    OwnEnv::new()
        .with(|env| existing(env, text))
        .ok_or_else(|| {
            PyValueError::new_err(match is_too_long(text) {
                true => format!("{what}: {TOO_LONG}"),
                false => {
                    format!("{what}: there is no atom {text:?}; erlang.Atom({text:?}) makes it")
                }
            })
        })
}

fn count_new() -> PyResult<()> {
    let mut table = table();
    let made = &mut table.get_or_insert_default().new_atoms;
    let limit = limits::atoms();
    if *made >= limit {
        return Err(PyRuntimeError::new_err(format!(
            "Python has made {limit} atoms, which the Erlang VM keeps forever; no more \
             are made. Atoms are for names in programs, not for data: send a str"
        )));
    }
    *made += 1;
    Ok(())
}

// The NIF functions for atoms support Latin-1 only (up to OTP 25), so other names go through the
// external term format.

/// SMALL_ATOM_UTF8_EXT or ATOM_UTF8_EXT. `None`: the name is too long for either, and so for an
/// atom.
fn external(name: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![131];
    match u8::try_from(name.len()) {
        Ok(length) => bytes.extend([119, length]),
        Err(_) => {
            bytes.push(118);
            bytes.extend(u16::try_from(name.len()).ok()?.to_be_bytes());
        }
    }
    bytes.extend_from_slice(name.as_bytes());
    Some(bytes)
}

fn existing(env: Env<'_>, name: &str) -> Option<Atom> {
    if let Ok(atom) = Atom::existing_from_str(env, name) {
        return Some(atom);
    }
    // Safe mode rejects atoms that do not exist.
    env.binary_to_term(&external(name)?)
        .and_then(|(term, _)| Atom::from_term(term).ok())
}

fn new(env: Env<'_>, name: &str) -> Option<Atom> {
    if let Ok(atom) = Atom::from_str(env, name) {
        return Some(atom);
    }
    crate::beam::terms::new_from_external(env, &external(name)?)
        .and_then(|term| Atom::from_term(term).ok())
}

fn name(atom: Term<'_>) -> String {
    if let Ok(name) = atom.atom_to_string() {
        return name;
    }
    let bytes = atom.to_binary();
    let name = match bytes.as_slice() {
        [131, 119, _, name @ ..] | [131, 118, _, _, name @ ..] => name,
        _ => &[],
    };
    String::from_utf8_lossy(name).into_owned()
}
