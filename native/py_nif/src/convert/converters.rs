//! Encoders and decoders of the program: `erlang.encoder` and `erlang.decoder`
//! (`python/erlang/converters.py`, which decides what may be registered).
//!
//! A program that has none pays one read of a flag for each value of a rare type, and for each tuple.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use rustler::{Atom, Term};

use super::atoms;
use super::error::{ConvertError, type_name};

/// By class: its address, which the entry keeps alive.
static ENCODERS: LazyLock<Registry<usize>> = LazyLock::new(Registry::default);
static DECODERS: LazyLock<Registry<Atom>> = LazyLock::new(Registry::default);
/// Whether there was ever one. Relaxed: a thread that registers one and then converts sees it, and so
/// do threads that synchronize with it.
static ANY_ENCODER: AtomicBool = AtomicBool::new(false);
static ANY_DECODER: AtomicBool = AtomicBool::new(false);

/// The lock is never held while Python code runs.
struct Registry<Key>(RwLock<HashMap<Key, Entry>>);

struct Entry {
    function: Py<PyAny>,
    _class: Option<Py<PyType>>,
}

impl<Key> Default for Registry<Key> {
    fn default() -> Self {
        Registry(RwLock::default())
    }
}

impl<Key: Eq + Hash> Registry<Key> {
    fn get<'py>(&self, py: Python<'py>, key: &Key) -> Option<Bound<'py, PyAny>> {
        // Insertions are complete or have not begun, also after a panic.
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        entries
            .get(key)
            .map(|entry| entry.function.bind(py).clone())
    }

    fn set(&self, key: Key, entry: Option<Entry>) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = match entry {
            Some(entry) => entries.insert(key, entry),
            None => entries.remove(&key),
        };
        drop(entries);
        // Its destructor may run Python code.
        drop(before);
    }
}

/// Sets, or with None removes, the encoder of exactly this class.
#[pyfunction]
pub fn _set_encoder(cls: &Bound<'_, PyType>, function: Option<Py<PyAny>>) {
    let entry = function.map(|function| Entry {
        function,
        _class: Some(cls.clone().unbind()),
    });
    ENCODERS.set(cls.as_ptr() as usize, entry);
    ANY_ENCODER.store(true, Ordering::Relaxed);
}

/// Sets, or with None removes, the decoder of tuples with this tag, and of Elixir's structs.
#[pyfunction]
pub fn _set_decoder(tag: &Bound<'_, PyString>, function: Option<Py<PyAny>>) -> PyResult<()> {
    let entry = function.map(|function| Entry {
        function,
        _class: None,
    });
    DECODERS.set(atoms::to_atom(tag)?, entry);
    ANY_DECODER.store(true, Ordering::Relaxed);
    Ok(())
}

/// What takes the place of `value`, if its class has an encoder.
#[inline]
pub fn encode<'py>(value: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, ConvertError> {
    match ANY_ENCODER.load(Ordering::Relaxed) {
        false => Ok(None),
        true => call_encoder(value),
    }
}

#[cold]
fn call_encoder<'py>(value: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, ConvertError> {
    let class = value.get_type();
    let Some(function) = ENCODERS.get(value.py(), &(class.as_ptr() as usize)) else {
        return Ok(None);
    };
    let encoded = function.call1((value,))?;
    match encoded.get_type().is(&class) {
        true => Err(ConvertError::refused(format!(
            "the encoder of {0} returned a {0}, and must return something else",
            type_name(value)
        ))),
        false => Ok(Some(encoded)),
    }
}

/// The decoder of a tag, or of a struct's module.
#[inline]
pub fn decoder<'py>(py: Python<'py>, tag: Term<'_>) -> Option<Bound<'py, PyAny>> {
    match ANY_DECODER.load(Ordering::Relaxed) {
        false => None,
        true => DECODERS.get(py, &Atom::from_term(tag).ok()?),
    }
}

/// The result of a decoder.
pub fn decoded(result: PyResult<Bound<'_, PyAny>>) -> Result<Bound<'_, PyAny>, ConvertError> {
    let value = result.map_err(ConvertError::raised_by_decoder)?;
    // It would never be awaited. (A coroutine function cannot be registered; others may return one.)
    match value.get_type().fully_qualified_name()?.to_string_lossy() == "coroutine" {
        true => {
            let _ = value.call_method0("close");
            Err(ConvertError::refused(
                "the decoder returned a coroutine, and must return the value",
            ))
        }
        false => Ok(value),
    }
}
