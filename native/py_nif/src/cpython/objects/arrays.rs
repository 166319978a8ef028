//! The memory of numpy's arrays as binaries, without a copy, if nothing can write to it any more.
//! Called by `convert/types/numpy.rs`.
//!
//! Terms of Erlang never change, so an array shares its memory only if it and the array that owns the
//! memory are each
//!
//! - *sole*: the references to it are those of the conversion, and of a view that is sole. A function
//!   has computed the array and returned it. Or
//! - *read-only*: the program has said so.
#![allow(unsafe_code)]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView, PyType};
use rustler::{Env, Term};

use super::buffers::BinaryMemory;
use super::shared_bytes;

/// The references to an array of which the conversion knows: no other code can reach the array if
/// these are all. 0: it is not known.
pub type Held = usize;

/// The references to an object.
pub fn references(object: &Bound<'_, PyAny>) -> Held {
    // SAFETY: attached, and a live object.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) as Held }
}

/// `None`: the array must be copied. `class` is `numpy.ndarray`.
pub fn shared<'a>(
    env: Env<'a>,
    array: &Bound<'_, PyAny>,
    class: &Bound<'_, PyType>,
    held: Held,
) -> PyResult<Option<Term<'a>>> {
    // A subclass may say anything about its memory.
    if !array.get_type().is(class) {
        return Ok(None);
    }
    let size: usize = array.getattr("nbytes")?.extract()?;
    if size < shared_bytes::SHARED_FROM
        || !flag(array, "c_contiguous")?
        || !stays(array.clone(), class, held, size)?
    {
        return Ok(None);
    }
    let (address, _): (usize, bool) = array
        .getattr("__array_interface__")?
        .get_item("data")?
        .extract()?;
    // SAFETY: numpy's own array of `size` bytes without gaps, which keeps its memory where it is as
    // long as it lives; nothing writes to it.
    Ok(Some(unsafe {
        shared_bytes::of_memory(env, array, address as *const u8, size)
    }))
}

/// Whether the memory of the array stays as it is.
fn stays(
    mut array: Bound<'_, PyAny>,
    class: &Bound<'_, PyType>,
    mut held: Held,
    size: usize,
) -> PyResult<bool> {
    loop {
        // `array` is one more.
        let is_sole = held > 0 && references(&array) == held + 1 && !has_weak_references(&array)?;
        if !is_sole && flag(&array, "writeable")? {
            return Ok(false);
        }
        if flag(&array, "owndata")? {
            // A small part does not keep a large array alive.
            let whole: usize = array.getattr("nbytes")?.extract()?;
            return Ok(whole / 2 <= size);
        }
        let base = array.getattr("base")?;
        if !base.get_type().is(class) {
            return never_changes(base);
        }
        // The reference of the view.
        held = Held::from(is_sole);
        array = base;
    }
}

/// Whether this is immutable memory: `bytes`, or a binary of Erlang.
fn never_changes(base: Bound<'_, PyAny>) -> PyResult<bool> {
    let owner = match base.cast::<PyMemoryView>() {
        Ok(view) => view.getattr("obj")?,
        Err(_) => base,
    };
    Ok(owner.is_exact_instance_of::<PyBytes>() || owner.is_exact_instance_of::<BinaryMemory>())
}

fn flag(array: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    array.getattr("flags")?.getattr(name)?.is_truthy()
}

/// A cache may have one, from which the array can be reached again.
fn has_weak_references(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    static COUNT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let count = COUNT.import(array.py(), "weakref", "getweakrefcount")?;
    count.call1((array,))?.is_truthy()
}
