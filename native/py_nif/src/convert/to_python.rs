//! Converts a term to a Python object.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyList, PySet, PyString, PyTuple};
use rustler::{Atom, Binary, MapIterator, Term, TermType};

use super::converters;
use super::error::{ConvertError, Step, key_text, shortened};
use super::opaque::{Fun, Pid, Port, Ref};
use super::types::incoming::{self, Tagged};
use super::types::structs;
use super::value_options::ValueOptions;
use super::{MAX_DEPTH, atoms, bit_string, channels, handle, integers};
use crate::beam::terms::Elements;
use crate::cpython::objects::collector;

/// Python hashes nested tuples recursively, without checking the remaining stack.
const MAX_KEY_DEPTH: usize = 100;

/// Converts `term`. The term does not change, and the result does not refer to it.
pub fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    argument_to_python(py, term, ValueOptions::of_node())
}

/// Converts an argument of a request, as its caller wants it.
pub fn argument_to_python<'py>(
    py: Python<'py>,
    term: Term<'_>,
    options: ValueOptions,
) -> Result<Bound<'py, PyAny>, ConvertError> {
    match open(py, term, options)? {
        Opened::Leaf(value) => Ok(value),
        Opened::Inside(frame) => {
            let _paused = collector::pause(py);
            let mut walk = Walk {
                py,
                options,
                frames: Vec::with_capacity(8),
                values: Vec::with_capacity(8),
                key_from: usize::MAX,
            };
            walk.run(frame).map_err(|mut error| {
                walk.frames
                    .iter()
                    .rev()
                    .for_each(|frame| error.step(frame.step()));
                error
            })
        }
    }
}

enum Opened<'a, 'py> {
    Leaf(Bound<'py, PyAny>),
    Inside(Frame<'a, 'py>),
}

/// A container whose elements are being converted.
enum Frame<'a, 'py> {
    List {
        rest: Term<'a>,
        taken: usize,
        becomes: Sequence,
    },
    Tuple {
        elements: Elements<'a>,
        taken: usize,
        /// Called with all elements but the first one, the tag.
        decoder: Option<Bound<'py, PyAny>>,
    },
    Map {
        pairs: std::vec::IntoIter<(Term<'a>, Term<'a>)>,
        /// The pair that is being converted.
        now: Option<(Term<'a>, Term<'a>)>,
        /// Its key, once converted.
        key: Option<Bound<'py, PyAny>>,
        dict: Bound<'py, PyDict>,
        size: usize,
        /// Of a struct: called with the fields as keyword arguments.
        decoder: Option<Bound<'py, PyAny>>,
    },
}

/// What the elements of a list become.
#[derive(Clone, Copy, PartialEq)]
enum Sequence {
    List,
    Set,
    FrozenSet,
}

/// Converts a leaf or opens a container.
#[inline]
fn open<'a, 'py>(
    py: Python<'py>,
    term: Term<'a>,
    options: ValueOptions,
) -> Result<Opened<'a, 'py>, ConvertError> {
    Ok(Opened::Leaf(match term.get_type() {
        TermType::Atom => {
            let atom = Atom::from_term(term).map_err(|_| unknown(term))?;
            match options.is_null(atom) {
                true => py.None().into_bound(py),
                false => atoms::to_python(py, atom)?,
            }
        }
        TermType::Integer => integers::to_python(py, term)?,
        TermType::Float => {
            let number: f64 = term.decode().map_err(|_| unknown(term))?;
            number.into_pyobject(py).map_err(PyErr::from)?.into_any()
        }
        TermType::Binary => match Binary::from_term(term) {
            Ok(binary) => text(py, &binary)?,
            Err(_) => bit_string::to_python(py, term)?,
        },
        TermType::List => {
            if term.list_length().is_err() {
                return Err(ConvertError::refused(
                    "an improper list has no form in Python",
                ));
            }
            return Ok(elements_of(term, Sequence::List));
        }
        TermType::Tuple => return open_tuple(py, term),
        TermType::Map => return open_map(py, term),
        TermType::Pid => Bound::new(py, Pid::keep(term))?.into_any(),
        TermType::Ref => match handle::to_python(py, term) {
            Some(object) => object,
            None => match channels::to_python(py, term)? {
                Some(channel) => channel,
                None => Bound::new(py, Ref::keep(term))?.into_any(),
            },
        },
        TermType::Port => Bound::new(py, Port::keep(term))?.into_any(),
        TermType::Fun => Bound::new(py, Fun::keep(term))?.into_any(),
        TermType::Unknown => return Err(unknown(term)),
    }))
}

fn unknown(term: Term<'_>) -> ConvertError {
    ConvertError::refused(format!(
        "a term of an unknown type: {}",
        shortened(format!("{term:?}"))
    ))
}

#[inline]
fn text<'py>(py: Python<'py>, binary: &Binary<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    match std::str::from_utf8(binary.as_slice()) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(error) => Err(ConvertError::refused(format!(
            "a binary becomes a str and must be UTF-8, but byte {} of {} is not; send bytes as \
             {{bytes, Binary}}",
            error.valid_up_to(),
            binary.len(),
        ))),
    }
}

/// The bytes of a binary.
pub fn bytes<'py>(py: Python<'py>, term: Term<'_>) -> Result<Bound<'py, PyAny>, ConvertError> {
    let binary = Binary::from_term(term).map_err(|_| unknown(term))?;
    Ok(PyBytes::new(py, binary.as_slice()).into_any())
}

fn elements_of<'a, 'py>(list: Term<'a>, becomes: Sequence) -> Opened<'a, 'py> {
    Opened::Inside(Frame::List {
        rest: list,
        taken: 0,
        becomes,
    })
}

/// Opens a tuple; `{bytes, Binary}` and other tagged values are leaves.
#[inline]
fn open_tuple<'a, 'py>(py: Python<'py>, term: Term<'a>) -> Result<Opened<'a, 'py>, ConvertError> {
    let elements = Elements::of(term).ok_or_else(|| unknown(term))?;
    if elements.len() == 2
        && let (Some(tag), Some(bytes)) = (elements.get(0), elements.get(1))
        && crate::atoms::bytes() == tag
        && let Ok(binary) = Binary::from_term(bytes)
    {
        return Ok(Opened::Leaf(PyBytes::new(py, binary.as_slice()).into_any()));
    }
    let tag = elements.get(0);
    if let Some(decoder) = tag.and_then(|tag| converters::decoder(py, tag)) {
        return Ok(Opened::Inside(Frame::Tuple {
            elements,
            taken: 1,
            decoder: Some(decoder),
        }));
    }
    Ok(match incoming::open(py, &elements)? {
        Tagged::No => Opened::Inside(Frame::Tuple {
            elements,
            taken: 0,
            decoder: None,
        }),
        Tagged::Value(value) => Opened::Leaf(value),
        Tagged::Set(members) => elements_of(members, Sequence::Set),
        Tagged::FrozenSet(members) => elements_of(members, Sequence::FrozenSet),
    })
}

/// Opens a map. Some structs of Elixir are leaves or sets.
fn open_map<'a, 'py>(py: Python<'py>, map: Term<'a>) -> Result<Opened<'a, 'py>, ConvertError> {
    let mut decoder = None;
    if let Ok(name) = map.map_get(crate::atoms::struct_()) {
        decoder = converters::decoder(py, name);
        if decoder.is_none() {
            match structs::open(py, name, map)? {
                Tagged::No => {}
                Tagged::Value(value) => return Ok(Opened::Leaf(value)),
                Tagged::Set(members) => return Ok(elements_of(members, Sequence::Set)),
                Tagged::FrozenSet(members) => return Ok(elements_of(members, Sequence::FrozenSet)),
            }
        }
    }
    let pairs: Vec<_> = MapIterator::new(map)
        .ok_or_else(|| unknown(map))?
        .filter(|(key, _)| decoder.is_none() || crate::atoms::struct_() != *key)
        .collect();
    Ok(Opened::Inside(Frame::Map {
        size: pairs.len(),
        pairs: pairs.into_iter(),
        now: None,
        key: None,
        dict: PyDict::new(py),
        decoder,
    }))
}

struct Walk<'a, 'py> {
    py: Python<'py>,
    options: ValueOptions,
    /// From the outermost container inwards.
    frames: Vec<Frame<'a, 'py>>,
    /// The finished elements of all lists and tuples in `frames`, one after another.
    values: Vec<Bound<'py, PyAny>>,
    /// The number of frames when the outermost container that is a key was opened.
    key_from: usize,
}

impl<'a, 'py> Walk<'a, 'py> {
    fn run(&mut self, outermost: Frame<'a, 'py>) -> Result<Bound<'py, PyAny>, ConvertError> {
        self.frames.push(outermost);
        loop {
            let frame = self
                .frames
                .last_mut()
                .expect("pushed above, popped with a return");
            let value = match frame.next() {
                Some(term) => match open(self.py, term, self.options)? {
                    Opened::Leaf(value) => value,
                    Opened::Inside(inner) => {
                        self.push(inner)?;
                        continue;
                    }
                },
                None => {
                    let value = self.close()?;
                    if self.frames.is_empty() {
                        return Ok(value);
                    }
                    value
                }
            };
            let frame = self.frames.last_mut().expect("there is one, see above");
            match frame {
                Frame::List { taken, .. } | Frame::Tuple { taken, .. } => {
                    *taken += 1;
                    self.values.push(value);
                }
                Frame::Map { key, dict, .. } => match key.take() {
                    None => *key = Some(value),
                    Some(name) => put(dict, name, value)?,
                },
            }
        }
    }

    fn push(&mut self, inner: Frame<'a, 'py>) -> Result<(), ConvertError> {
        let depth = self.frames.len();
        if self.key_from >= depth && self.frames.last().is_some_and(Frame::at_key) {
            self.key_from = depth;
        } else if self.key_from >= depth {
            self.key_from = usize::MAX;
        }
        if depth >= MAX_DEPTH {
            return Err(ConvertError::refused("nested more than 10,000 deep"));
        }
        if depth.saturating_sub(self.key_from) >= MAX_KEY_DEPTH {
            return Err(ConvertError::refused("nested more than 100 deep in a key"));
        }
        self.frames.push(inner);
        Ok(())
    }

    /// Closes the innermost container, whose elements are complete.
    fn close(&mut self) -> Result<Bound<'py, PyAny>, ConvertError> {
        let frame = self.frames.pop().expect("called for the last frame");
        match frame {
            Frame::List { taken, becomes, .. } => {
                let elements = self.values.drain(self.values.len() - taken..);
                match becomes {
                    Sequence::List => Ok(PyList::new(self.py, elements)?.into_any()),
                    _ => set(self.py, elements.collect(), becomes),
                }
            }
            Frame::Tuple { taken, decoder, .. } => {
                let count = taken - usize::from(decoder.is_some());
                let elements = self.values.drain(self.values.len() - count..);
                let elements = PyTuple::new(self.py, elements)?;
                match decoder {
                    None => Ok(elements.into_any()),
                    Some(decoder) => converters::decoded(decoder.call1(elements)),
                }
            }
            Frame::Map {
                dict,
                size,
                decoder,
                ..
            } => {
                if dict.len() != size {
                    return Err(ConvertError::refused(
                        "two keys of the map are equal in Python, as are an atom and a binary \
                         of the same text, 1 and 1.0, or 1 and true",
                    ));
                }
                match decoder {
                    None => Ok(dict.into_any()),
                    Some(decoder) => converters::decoded(decoder.call((), Some(&dict))),
                }
            }
        }
    }
}

fn set<'py>(
    py: Python<'py>,
    members: Vec<Bound<'py, PyAny>>,
    becomes: Sequence,
) -> Result<Bound<'py, PyAny>, ConvertError> {
    let count = members.len();
    let set = match becomes {
        Sequence::FrozenSet => PyFrozenSet::new(py, members).map(Bound::into_any),
        _ => PySet::new(py, members).map(Bound::into_any),
    };
    let set = set.map_err(|error| unhashable(py, "a member of a set", error))?;
    match set.len()? == count {
        true => Ok(set),
        false => Err(ConvertError::refused(
            "two members of the set are equal in Python, as are an atom and a binary of the same \
             text, 1 and 1.0, or 1 and true",
        )),
    }
}

fn put<'py>(
    dict: &Bound<'py, PyDict>,
    key: Bound<'py, PyAny>,
    value: Bound<'py, PyAny>,
) -> Result<(), ConvertError> {
    dict.set_item(&key, value)
        .map_err(|error| unhashable(dict.py(), "a key", error))
}

fn unhashable(py: Python<'_>, what: &str, error: PyErr) -> ConvertError {
    match error.is_instance_of::<PyTypeError>(py) {
        true => ConvertError::refused(format!(
            "{what} with a list, a set or a map in it cannot be one in Python ({})",
            error.value(py)
        )),
        false => error.into(),
    }
}

impl<'a> Frame<'a, '_> {
    #[inline]
    fn next(&mut self) -> Option<Term<'a>> {
        match self {
            Frame::List { rest, .. } => {
                let (head, tail) = rest.list_get_cell().ok()?;
                *rest = tail;
                Some(head)
            }
            Frame::Tuple {
                elements, taken, ..
            } => elements.get(*taken),
            Frame::Map {
                pairs, now, key, ..
            } => match (&key, &now) {
                (Some(_), Some((_, value))) => Some(*value),
                _ => {
                    *now = pairs.next();
                    now.map(|(key, _)| key)
                }
            },
        }
    }

    /// Whether the element taken last is a key or a member of a set: Python hashes it.
    fn at_key(&self) -> bool {
        match self {
            Frame::Map { key, .. } => key.is_none(),
            Frame::List { becomes, .. } => *becomes != Sequence::List,
            Frame::Tuple { .. } => false,
        }
    }

    fn step(&self) -> Step {
        match self {
            Frame::List { becomes, .. } if *becomes != Sequence::List => Step::Member,
            Frame::List { taken, .. } | Frame::Tuple { taken, .. } => Step::Index(*taken),
            Frame::Map { key: Some(key), .. } => Step::Key(key_text(key)),
            Frame::Map { now, .. } => Step::KeyItself(
                now.map_or_else(String::new, |(key, _)| shortened(format!("{key:?}"))),
            ),
        }
    }
}
