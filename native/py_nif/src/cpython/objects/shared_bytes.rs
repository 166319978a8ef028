//! Large binaries without a copy: the binary shares the memory of Python's object.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::slice;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use rustler::{Env, NewBinary, Term};

use super::buffers::BinaryMemory;
use super::release::release;
use super::shared_buffer::SharedBuffer;
use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::beam::sealed_memory::Part;
use crate::beam::terms;

/// Below this size a copy is cheaper than keeping the object alive.
pub const SHARED_FROM: usize = 64 << 10;

/// The bytes, str, array or view whose memory a binary uses.
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

/// The binary of the buffer of a memoryview or a numpy array, if its memory cannot change: that of
/// bytes, of a binary, or memory that is shared with other processes. `None`: it has to be copied.
pub fn of_view<'a>(env: Env<'a>, value: &Bound<'_, PyAny>) -> PyResult<Option<Term<'a>>> {
    let py = value.py();
    let mut buffer = MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: attached, and `buffer` has room for what the call fills in if it returns 0. Without
    // flags it fails if the memory has gaps.
    unsafe {
        if ffi::PyObject_GetBuffer(value.as_ptr(), buffer.as_mut_ptr(), ffi::PyBUF_SIMPLE) != 0 {
            drop(PyErr::take(py));
            return Ok(None);
        }
    }
    // SAFETY: the call has filled it.
    let mut buffer = unsafe { buffer.assume_init() };
    let result = match buffer.len as usize {
        0..SHARED_FROM => Ok(None),
        // SAFETY: the buffer is not released before this slice was used.
        size => unchanging(env, value, unsafe {
            slice::from_raw_parts(buffer.buf.cast(), size)
        }),
    };
    // SAFETY: released once.
    unsafe { ffi::PyBuffer_Release(&raw mut buffer) };
    result
}

fn unchanging<'a>(
    env: Env<'a>,
    value: &Bound<'_, PyAny>,
    bytes: &[u8],
) -> PyResult<Option<Term<'a>>> {
    let root = root(value)?;
    if let Ok(buffer) = root.cast::<SharedBuffer>() {
        return Ok(buffer
            .get()
            .seal(bytes)
            .map(|memory| memory.into_binary(env)));
    }
    let immutable = match (root.cast_exact::<PyBytes>(), root.cast::<BinaryMemory>()) {
        (Ok(root), _) => root.as_bytes(),
        (_, Ok(root)) => root.get().0.as_slice(),
        _ => &[],
    };
    match contains(immutable, bytes) || Part::of(bytes).is_some() {
        true => {
            // Its export keeps the memory, whatever happens to `value`.
            let view = PyMemoryView::from(value)?;
            // SAFETY: the memory is immutable, and the view keeps it alive.
            Ok(Some(unsafe { binary(env, view.as_any(), bytes) }))
        }
        false => Ok(None),
    }
}

/// Any object may claim to show the memory of another one.
fn contains(whole: &[u8], part: &[u8]) -> bool {
    let (whole, part) = (whole.as_ptr_range(), part.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

/// The object whose memory a view, or a view of a view, shows.
fn root<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut object = value.clone();
    // A view that refers to itself is not looked through forever.
    for _ in 0..32 {
        let name = match object.cast::<PyMemoryView>() {
            Ok(_) => "obj",
            Err(_) => "base",
        };
        match object.getattr_opt(name)? {
            Some(next) if !next.is_none() => object = next,
            _ => break,
        }
    }
    Ok(object)
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
