//! Large binaries without a copy: the binary shares the memory of Python's object.
#![allow(unsafe_code)]

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};
use rustler::{Env, NewBinary, Term};

use super::release::release;
use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::beam::terms;

/// Below this size a copy is cheaper than keeping the object alive.
pub const SHARED_FROM: usize = 64 << 10;

/// The bytes, str or array whose memory a binary uses.
pub struct SharedBytes(Py<PyAny>);

impl Resource for SharedBytes {
    const NAME: &'static std::ffi::CStr = c"python_bytes";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn destroy(self, _sender: Sender<'_>) {
        release(self.0);
    }
}

/// The binary of a bytes object (or of a subclass).
#[inline]
pub fn of_bytes<'a>(env: Env<'a>, value: &Bound<'_, PyBytes>) -> Term<'a> {
    // SAFETY: these are the bytes of an immutable object.
    unsafe { binary(env, value.as_any(), value.as_bytes()) }
}

/// The binary of a str's UTF-8. Fails if the str has lone surrogates.
#[inline]
pub fn of_str<'a>(env: Env<'a>, value: &Bound<'_, PyString>) -> PyResult<Term<'a>> {
    // Python would cache the UTF-8 of a non-ASCII str in the object. That is fine for short
    // strings; a large one is encoded into a separate object.
    if value.code_point_len()? >= SHARED_FROM / 4 && !is_ascii(value)? {
        return Ok(of_bytes(env, &value.encode_utf8()?));
    }
    // SAFETY: the text of an immutable object, or its UTF-8, which the object keeps.
    Ok(unsafe { binary(env, value.as_any(), value.to_str()?.as_bytes()) })
}

fn is_ascii(value: &Bound<'_, PyString>) -> PyResult<bool> {
    value
        .py()
        .get_type::<PyString>()
        .call_method1("isascii", (value,))?
        .is_truthy()
}

/// The binary of a bytearray. Always a copy, because a bytearray may change.
pub fn of_bytearray<'a>(env: Env<'a>, value: &Bound<'_, PyByteArray>) -> Term<'a> {
    // SAFETY: no Python code runs while these bytes are copied.
    copied(env, unsafe { value.as_bytes() })
}

/// # Safety
/// `bytes` must be memory of `owner` that does not change while `owner` lives.
#[inline]
unsafe fn binary<'a>(env: Env<'a>, owner: &Bound<'_, PyAny>, bytes: &[u8]) -> Term<'a> {
    match bytes.len() {
        0..SHARED_FROM => copied(env, bytes),
        // SAFETY: the caller's promise.
        size => unsafe { of_memory(env, owner, bytes.as_ptr(), size) },
    }
}

/// The binary of this memory, whatever its size.
///
/// # Safety
/// `bytes` must be `size` bytes of `owner` that do not change while `owner` lives.
pub unsafe fn of_memory<'a>(
    env: Env<'a>,
    owner: &Bound<'_, PyAny>,
    bytes: *const u8,
    size: usize,
) -> Term<'a> {
    let owner = Ref::new(SharedBytes(owner.clone().unbind()));
    // SAFETY: the caller's promise, and the resource keeps the object alive.
    unsafe { terms::binary_of(env, &owner, bytes, size) }
}

#[inline]
pub fn copied<'a>(env: Env<'a>, bytes: &[u8]) -> Term<'a> {
    NewBinary::from_slice(env, bytes).into()
}
