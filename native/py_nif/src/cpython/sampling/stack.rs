//! Reads the stack of a thread that goes on running.
//!
//! From the innermost frame outwards. Each frame is read again after the one that it points to: if it
//! is still the same, both were on the stack at that time. If not, the thread has returned from it
//! meanwhile, and all is read again, a few times. So what is returned was the stack, except that a
//! frame that was left and entered again at the same address cannot be distinguished from one that stayed.

use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::layout::{self, Current, Layout, TAG};
use super::lines;
use super::memory::Memory;

/// Frames that a sample has at most, the innermost ones.
pub const MAX_FRAMES: usize = 1000;
const ATTEMPTS: usize = 8;
const MAX_TEXT: usize = 4096;
const MAX_TABLE: usize = 1 << 20;
/// Code objects that are remembered.
const MAX_CODES: usize = 10_000;

static LAYOUT: OnceLock<Option<Layout>> = OnceLock::new();

/// Measures the layout, once, while Python starts, and checks it: the stack of the calling thread is
/// read as it is.
pub fn prepare(py: Python<'_>) {
    if LAYOUT.get().is_some() {
        return;
    }
    let measured = layout::measured(py).and_then(|layout| match layout {
        Some(layout) => is_right(py, &layout).map(|right| right.then_some(layout)),
        None => Ok(None),
    });
    match measured {
        Ok(layout) => drop(LAYOUT.set(layout)),
        Err(error) => {
            drop(LAYOUT.set(None));
            error.write_unraisable(py, None);
        }
    }
}

fn is_right(py: Python<'_>, layout: &Layout) -> PyResult<bool> {
    let layout = layout.clone();
    layout::with_known_frame(py, move |frame| {
        let mut sampler = Sampler::with(layout.clone());
        let read = sampler.stack(PythonThread::this(frame.py()));
        let mut next = Some(frame.clone());
        for one in read.unwrap_or_default() {
            let Some(known) = next else { return Ok(false) };
            let code = known.getattr("f_code")?;
            let name: String = code.getattr("co_qualname")?.extract()?;
            let file: String = code.getattr("co_filename")?.extract()?;
            let line: u32 = known.getattr("f_lineno")?.extract()?;
            if (&*one.function, &*one.file, one.line) != (&*name, &*file, line) {
                return Ok(false);
            }
            next = Some(known.getattr("f_back")?).filter(|known| !known.is_none());
        }
        Ok(next.is_none())
    })
}

/// A thread that runs Python, and the address of its state in CPython.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonThread {
    pub number: u64,
    pub state: usize,
}

impl PythonThread {
    #[allow(unsafe_code)]
    pub fn this(_attached: Python<'_>) -> Self {
        // SAFETY: attached, so there is a state; only its address is used.
        let (state, number) = unsafe {
            (
                pyo3::ffi::PyThreadState_Get() as usize,
                pyo3::ffi::PyThread_get_thread_ident() as u64,
            )
        };
        PythonThread { number, state }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    pub function: Arc<str>,
    pub file: Arc<str>,
    pub line: u32,
}

/// A code object as it was read. It is the same one as long as its pointers are.
struct KnownCode {
    pointers: [usize; 3],
    first_line: u32,
    function: Arc<str>,
    file: Arc<str>,
    lines: Vec<u8>,
}

pub struct Sampler {
    memory: Memory,
    layout: Layout,
    codes: FxHashMap<usize, KnownCode>,
    /// File names are shared by many functions.
    files: FxHashMap<usize, Arc<str>>,
}

impl Sampler {
    /// `None`: stacks cannot be read here.
    pub fn new() -> Option<Self> {
        LAYOUT.get()?.clone().map(Sampler::with)
    }

    fn with(layout: Layout) -> Self {
        Sampler {
            memory: Memory::own(),
            layout,
            codes: FxHashMap::default(),
            files: FxHashMap::default(),
        }
    }

    /// The stack of the thread, innermost frame first; empty if it runs no Python code. `None`: it
    /// changed all the time.
    pub fn stack(&mut self, thread: PythonThread) -> Option<Vec<Frame>> {
        if thread.state == 0 {
            return None;
        }
        let places = (0..ATTEMPTS).find_map(|_| self.walk(thread))?;
        let mut frames = Vec::with_capacity(places.len());
        for (code, instruction) in places {
            if let Some(frame) = self.frame(code, instruction)? {
                frames.push(frame);
            }
        }
        Some(frames)
    }

    /// The code and the instruction of each frame.
    fn walk(&self, thread: PythonThread) -> Option<Vec<(usize, usize)>> {
        let layout = &self.layout.frame;
        let mut places = Vec::new();
        let mut address = self.current(thread)?;
        let (mut frame, mut next, mut again) = ([0; 16], [0; 16], [0; 16]);
        if address != 0 && !self.memory.read(address, &mut frame[..layout.words]) {
            return None;
        }
        while address != 0 && places.len() < MAX_FRAMES {
            let previous = frame[layout.previous];
            if previous != 0 {
                let both = self.memory.read_both(
                    (previous, &mut next[..layout.words]),
                    (address, &mut again[..layout.words]),
                );
                // The innermost frame may call something else: both calls come from the next one.
                let same = again[layout.previous] == previous
                    && (places.is_empty() || again[layout.code] == frame[layout.code]);
                if !both || !same {
                    return None;
                }
            }
            places.push((frame[layout.code] & !TAG, frame[layout.instruction]));
            (address, frame) = (previous, next);
        }
        Some(places)
    }

    /// The address of the frame that runs.
    fn current(&self, thread: PythonThread) -> Option<usize> {
        // The state of a thread that has ended may be that of another one by now.
        let mut word = [0; 1];
        let mut read = |address: usize| self.memory.read(address, &mut word).then_some(word[0]);
        if read(thread.state + 8 * self.layout.thread)? as u64 != thread.number {
            return None;
        }
        match self.layout.current {
            Current::Direct(place) => read(thread.state + 8 * place),
            Current::Through(place, inner) => {
                let address = read(thread.state + 8 * place)?;
                read(address.checked_add(8 * inner)?)
            }
        }
    }

    /// `Some(None)`: a frame without code of its own, between C and Python.
    #[allow(clippy::option_option)]
    fn frame(&mut self, address: usize, instruction: usize) -> Option<Option<Frame>> {
        if address == self.layout.none {
            // From Python 3.13 on.
            return Some(None);
        }
        let layout = &self.layout.code;
        let mut words = [0; 40];
        if !self.memory.read(address, &mut words[..layout.words])
            || words[self.layout.class] != self.layout.code_class
        {
            return None;
        }
        let pointers = [words[layout.name], words[layout.file], words[layout.lines]];
        let first_line = (words[layout.first_line / 8] >> (8 * (layout.first_line % 8))) as u32;
        let start = address + layout.start;
        let known = match self.codes.get(&address) {
            Some(known) if known.pointers == pointers && known.first_line == first_line => known,
            _ => self.learn(address, pointers, first_line)?,
        };
        if &*known.file == "<shim>" {
            return Some(None);
        }
        let line = (instruction.checked_sub(start))
            .and_then(|bytes| lines::line_of(&known.lines, first_line, bytes / 2));
        Some(Some(Frame {
            function: known.function.clone(),
            file: known.file.clone(),
            line: line.unwrap_or(first_line),
        }))
    }

    fn learn(
        &mut self,
        address: usize,
        pointers: [usize; 3],
        first_line: u32,
    ) -> Option<&KnownCode> {
        let file = match self.files.get(&pointers[1]) {
            Some(file) if self.text(pointers[1])? == **file => file.clone(),
            _ => Arc::from(self.text(pointers[1])?),
        };
        let known = KnownCode {
            pointers,
            first_line,
            function: Arc::from(self.text(pointers[0])?),
            file: file.clone(),
            lines: self.table(pointers[2])?,
        };
        if self.codes.len() >= MAX_CODES {
            self.codes.clear();
            self.files.clear();
        }
        self.files.insert(pointers[1], file);
        Some(match self.codes.entry(address) {
            Entry::Occupied(mut entry) => {
                entry.insert(known);
                entry.into_mut()
            }
            Entry::Vacant(entry) => entry.insert(known),
        })
    }

    /// A `str`.
    fn text(&self, address: usize) -> Option<String> {
        let class = self.layout.class;
        let mut head = [0; 8];
        let words = &mut head[..class + 4];
        if !self.memory.read(address, words) || words[class] != self.layout.text_class {
            return None;
        }
        let (length, state) = (words[class + 1], words[class + 3] as u32);
        let texts = &self.layout.texts;
        let kind = (layout::STATES.iter()).position(|one| *one == state >> texts.shift & 31)?;
        let width = layout::WIDTHS[kind];
        if length > MAX_TEXT {
            return None;
        }
        let bytes = self
            .memory
            .bytes(address + texts.data[kind], length * width)?;
        let character = |one: &[u8]| {
            let number = one
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u32::from(*byte));
            char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Some(bytes.chunks_exact(width).map(character).collect())
    }

    /// A `bytes` object.
    fn table(&self, address: usize) -> Option<Vec<u8>> {
        let class = self.layout.class;
        let mut head = [0; 8];
        let words = &mut head[..class + 2];
        if !self.memory.read(address, words) || words[class] != self.layout.bytes_class {
            return None;
        }
        let length = Some(words[class + 1]).filter(|length| *length <= MAX_TABLE)?;
        self.memory.bytes(address + (class + 3) * 8, length)
    }
}
