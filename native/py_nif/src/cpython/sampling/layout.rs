//! Where this CPython keeps frames, code objects and strings: measured, once, on two frames whose
//! contents are known. A value that is not found, or is ambiguous, means that no stack can be read; so
//! does a stack that is read wrongly afterwards (`stack::prepare`).
//!
//! Places in structures are numbers of words, if nothing else is said.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyString};

use super::memory::Memory;

/// How many words of a structure are searched.
const FRAME_WORDS: usize = 12;
const CODE_WORDS: usize = 32;
const STATE_WORDS: usize = 96;
/// The low bits of a pointer in a frame may say how it is counted.
pub const TAG: usize = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Current {
    /// The thread state has the pointer to the frame that runs.
    Direct(usize),
    /// There, in what the thread state points to: Python 3.11 and 3.12.
    Through(usize, usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The class in every object, and the addresses of three classes.
    pub class: usize,
    pub code_class: usize,
    pub text_class: usize,
    pub bytes_class: usize,
    /// The object None.
    pub none: usize,
    /// In a thread state: Python's number for its thread.
    pub thread: usize,
    pub current: Current,
    pub frame: FrameLayout,
    pub code: CodeLayout,
    pub texts: Texts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameLayout {
    pub code: usize,
    pub previous: usize,
    pub instruction: usize,
    /// The number of words that contain all of this.
    pub words: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLayout {
    pub name: usize,
    pub file: usize,
    pub lines: usize,
    /// In bytes: the number of its first line, and its first instruction.
    pub first_line: usize,
    pub start: usize,
    pub words: usize,
}

/// The ways in which CPython keeps characters: ASCII, and otherwise one, two or four bytes for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// Where the state of a string has the five bits that tell them apart: [`STATES`].
    pub shift: u32,
    /// In bytes: where the characters begin.
    pub data: [usize; 4],
}

/// Three bits for the width, one that is always set, one for ASCII.
pub const STATES: [u32; 4] = [0b11001, 0b01001, 0b01010, 0b01100];
pub const WIDTHS: [usize; 4] = [1, 1, 2, 4];

/// The lines of these functions are numbers that nothing else in their code objects is.
const SOURCE: &str = "\
class Measured:
    @staticmethod
    def outer(native):
        return Measured.inner(native)



    @staticmethod
    def inner(native):
        return native(sys._getframe())
";

/// Calls `look` with a frame of `Measured.inner`, which `Measured.outer` has called.
pub fn with_known_frame<R: Send + 'static>(
    py: Python<'_>,
    look: impl Fn(&Bound<'_, PyAny>) -> PyResult<R> + Send + Sync + 'static,
) -> PyResult<R> {
    let names = PyDict::new(py);
    names.set_item("sys", py.import("sys")?)?;
    let source = CString::new("\n".repeat(7000) + SOURCE)?;
    py.run(&source, Some(&names), None)?;
    let seen = Arc::new(Mutex::new(None));
    let keeps = seen.clone();
    let native = PyCFunction::new_closure(py, None, None, move |arguments, _| {
        let found = look(&arguments.get_item(0)?)?;
        *keeps.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        PyResult::Ok(())
    })?;
    let class = names.as_any().get_item("Measured")?;
    class.call_method1("outer", (native,))?;
    let found = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the frame was not seen"))
}

pub fn measured(py: Python<'_>) -> PyResult<Option<Layout>> {
    with_known_frame(py, measure)
}

struct Known {
    /// The frame object, and its code.
    object: usize,
    code: usize,
    name: usize,
    file: usize,
    lines: usize,
    first_line: u32,
    /// The instruction that it runs, in bytes.
    at: usize,
    size: usize,
}

impl Known {
    fn of(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        let code = frame.getattr("f_code")?;
        let address = |name| PyResult::Ok(code.getattr(name)?.as_ptr() as usize);
        Ok(Known {
            object: frame.as_ptr() as usize,
            name: address("co_qualname")?,
            file: address("co_filename")?,
            lines: address("co_linetable")?,
            first_line: code.getattr("co_firstlineno")?.extract()?,
            at: frame.getattr("f_lasti")?.extract()?,
            size: code.call_method0("__sizeof__")?.extract()?,
            code: code.as_ptr() as usize,
        })
    }
}

fn measure(frame: &Bound<'_, PyAny>) -> PyResult<Option<Layout>> {
    let py = frame.py();
    let (inner, outer) = (Known::of(frame)?, Known::of(&frame.getattr("f_back")?)?);
    let texts = [
        PyString::new(py, "erlang_loop: a text"),
        PyString::new(py, "erlang_loop: \u{e9}\u{ff}"),
        PyString::new(py, "erlang_loop: \u{101}\u{20ac}"),
        PyString::new(py, "erlang_loop: \u{1f40d}"),
    ];
    let lines = frame.getattr("f_code")?.getattr("co_linetable")?;
    // SAFETY: attached; only addresses and numbers are asked for.
    let (state, number) = unsafe {
        (
            ffi::PyThreadState_Get() as usize,
            ffi::PyThread_get_thread_ident() as usize,
        )
    };
    let memory = Memory::own();
    let found = || {
        let code_class = &raw mut ffi::PyCode_Type as usize;
        let code = memory.words(inner.code, CODE_WORDS)?;
        let class = at(&code, code_class)?;
        let frames = Frames::find(&memory, &inner, &outer)?;
        Some(Layout {
            class,
            code_class,
            text_class: texts[0].get_type_ptr() as usize,
            bytes_class: lines.get_type_ptr() as usize,
            none: py.None().as_ptr() as usize,
            thread: at(&memory.words(state, STATE_WORDS)?, number)?,
            current: current(&memory, state, frames.inner)?,
            code: code_layout(&memory, &inner, &outer, &frames, &code)?,
            texts: text_layout(&memory, class, &texts)?,
            frame: frames.layout,
        })
    };
    Ok(found())
}

/// Where this value is.
fn at(words: &[usize], value: usize) -> Option<usize> {
    words.iter().position(|&word| word == value)
}

struct Frames {
    inner: usize,
    layout: FrameLayout,
    /// In bytes, from the code object: its first instruction.
    start: usize,
}

impl Frames {
    fn find(memory: &Memory, inner: &Known, outer: &Known) -> Option<Self> {
        let (inner_at, inner_words, code) = interpreters(memory, inner)?;
        let (outer_at, outer_words, outer_code) = interpreters(memory, outer)?;
        let previous = at(&inner_words, outer_at)?;
        let start = |words: &[usize], at: usize, known: &Known| {
            let from = words[at].checked_sub(known.code + known.at)?;
            (from > TAG && from < known.size).then_some(from)
        };
        let (instruction, start) = (0..FRAME_WORDS).find_map(|at| {
            let one = start(&inner_words, at, inner)?;
            let other = start(&outer_words, at, outer)?;
            (one == other).then_some((at, one))
        })?;
        let words = code.max(previous).max(instruction) + 1;
        let layout = FrameLayout {
            code,
            previous,
            instruction,
            words,
        };
        (code == outer_code).then_some(Frames {
            inner: inner_at,
            layout,
            start,
        })
    }
}

/// The frame of the interpreter that a frame object stands for: the one that points back to it.
/// With the place of its code.
fn interpreters(memory: &Memory, known: &Known) -> Option<(usize, Vec<usize>, usize)> {
    memory
        .words(known.object, 8)?
        .into_iter()
        .find_map(|address| {
            let words = memory.words(address, FRAME_WORDS)?;
            let code = words.iter().position(|word| word & !TAG == known.code)?;
            at(&words, known.object)?;
            Some((address, words, code))
        })
}

fn current(memory: &Memory, state: usize, frame: usize) -> Option<Current> {
    let words = memory.words(state, STATE_WORDS)?;
    if let Some(place) = at(&words, frame) {
        return Some(Current::Direct(place));
    }
    words.iter().enumerate().find_map(|(place, &address)| {
        let inner = at(&memory.words(address, 2)?, frame)?;
        Some(Current::Through(place, inner))
    })
}

fn code_layout(
    memory: &Memory,
    inner: &Known,
    outer: &Known,
    frames: &Frames,
    code: &[usize],
) -> Option<CodeLayout> {
    let first_line = |address: usize, line: u32| {
        let bytes = memory.bytes(address, CODE_WORDS * 8)?;
        let found = bytes
            .chunks_exact(4)
            .position(|four| four == line.to_ne_bytes());
        found.map(|place| place * 4)
    };
    let (name, file, lines) = (
        at(code, inner.name)?,
        at(code, inner.file)?,
        at(code, inner.lines)?,
    );
    let line = first_line(inner.code, inner.first_line)?;
    let other = memory.words(outer.code, CODE_WORDS)?;
    let agrees = other[name] == outer.name
        && other[lines] == outer.lines
        && first_line(outer.code, outer.first_line) == Some(line);
    agrees.then_some(CodeLayout {
        name,
        file,
        lines,
        first_line: line,
        start: frames.start,
        words: name.max(file).max(lines).max(line / 8) + 1,
    })
}

fn text_layout(memory: &Memory, class: usize, texts: &[Bound<'_, PyString>; 4]) -> Option<Texts> {
    let mut states = [0; 4];
    let mut data = [0; 4];
    for (kind, text) in texts.iter().enumerate() {
        let address = text.as_ptr() as usize;
        let wide = |each: char| u32::from(each).to_le_bytes().into_iter().take(WIDTHS[kind]);
        let characters: Vec<u8> = text.to_str().ok()?.chars().flat_map(wide).collect();
        let object = memory.bytes(address, 8 * 8 + characters.len() + 24)?;
        states[kind] = state_of(memory, class, address)?;
        data[kind] = (object.windows(characters.len())).position(|part| part == characters)?;
    }
    // What surrounds those bits may be anything.
    let shift = (0..=24).find(|shift| states.map(|state| state >> shift & 31) == STATES)?;
    Some(Texts { shift, data })
}

/// Behind the class: the length, the hash, and the state.
pub fn state_of(memory: &Memory, class: usize, address: usize) -> Option<u32> {
    let words = memory.words(address + (class + 3) * 8, 1)?;
    Some(words[0] as u32)
}
