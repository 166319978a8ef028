//! Converts a Python object to a term.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyIterator,
    PyList, PyMemoryView, PySet, PyString, PyTuple,
};
use rustler::{Encoder, Env, OwnedEnv, Term};

use super::bit_string::BitString;
use super::converters;
use super::error::{ConvertError, Step, key_text, type_name};
use super::handle::{ObjectHandle, PythonObject};
use super::opaque::{Fun, Pid, Port, Ref};
use super::result_options::{ResultOptions, Returned};
use super::types::outgoing::{self, Rare};
use super::value_options::ValueOptions;
use super::{MAX_DEPTH, atoms, bit_string, integers, limits};
use crate::atoms as names;
use crate::beam::terms;
use crate::beam::terms::Word;
use crate::cpython::objects::arrays::{self, Held};
use crate::cpython::objects::shared_bytes;

/// A value is checked for containing itself each time it is this much deeper: a wide one would
/// otherwise be converted thousands of times before it is too deep. Divides `MAX_DEPTH`, so that
/// recursion is also the reason reported at that depth.
const LOOK_FOR_RECURSION: usize = 100;

/// The VM's limit, which its functions for native code do not check.
const LONGEST_TUPLE: usize = (1 << 24) - 1;

/// Converts `value` into a term of `env`.
pub fn to_term<'a>(env: Env<'a>, value: &Bound<'_, PyAny>) -> Result<Term<'a>, ConvertError> {
    with_options(env, value, ValueOptions::default(), 0)
}

fn with_options<'a>(
    env: Env<'a>,
    value: &Bound<'_, PyAny>,
    options: ValueOptions,
    held: Held,
) -> Result<Term<'a>, ConvertError> {
    let known = Known { held, stand_ins: 0 };
    match open(env, value, options, known).map_err(|error| error.within("result"))? {
        Opened::Leaf(term) => Ok(term),
        Opened::Inside(frame) => match walk(env, frame, options, Garbage::Refused)? {
            Some(term) => Ok(term),
            None => via_scratch(env, value, options, known),
        },
    }
}

/// Converts what a program sends: a message, the arguments of a function.
pub fn sent_to_term<'a>(env: Env<'a>, value: &Bound<'_, PyAny>) -> Result<Term<'a>, ConvertError> {
    with_options(env, value, ValueOptions::of_node(), 0)
}

/// Converts the result of a request, or an item of a stream, as its caller wants it.
pub fn result_to_term<'a>(
    env: Env<'a>,
    value: &Bound<'_, PyAny>,
    options: ResultOptions,
) -> Result<Term<'a>, ConvertError> {
    match options.returned {
        Returned::Reference => Ok(PythonObject::refer(value).encode(env)),
        // The caller of this function has the one reference of the result.
        Returned::Value | Returned::Each => with_options(env, value, options.values, 1),
    }
}

/// Converts in a temporary environment, from which only the result is copied.
#[cold]
fn via_scratch<'a>(
    env: Env<'a>,
    value: &Bound<'_, PyAny>,
    options: ValueOptions,
    known: Known,
) -> Result<Term<'a>, ConvertError> {
    OwnedEnv::new().run(|scratch| {
        match open(scratch, value, options, known).map_err(|error| error.within("result"))? {
            Opened::Leaf(term) => Ok(term.in_env(env)),
            Opened::Inside(frame) => {
                let term = walk(scratch, frame, options, Garbage::Accepted)?;
                Ok(term.expect("garbage is accepted").in_env(env))
            }
        }
    })
}

/// Returns `None` if this would leave garbage.
fn walk<'a>(
    env: Env<'a>,
    frame: Frame<'_>,
    options: ValueOptions,
    garbage: Garbage,
) -> Result<Option<Term<'a>>, ConvertError> {
    let mut walk = Walk {
        env,
        options,
        frames: Vec::with_capacity(8),
        words: Vec::with_capacity(8),
        values: Vec::new(),
        count: 0,
        limit: limits::parts(),
        garbage,
    };
    walk.run(frame).map_err(|mut error| {
        walk.frames
            .iter()
            .rev()
            .for_each(|frame| error.step(frame.step()));
        error.within("result")
    })
}

/// Garbage from creating a large map: [`terms::map_leaves_garbage`].
#[derive(Clone, Copy, PartialEq)]
enum Garbage {
    Refused,
    Accepted,
}

/// What the conversion knows of a value before it looks at it.
#[derive(Clone, Copy)]
struct Known {
    held: Held,
    /// How many objects it stands for: an Enum, whose value was an Enum.
    stand_ins: usize,
}

enum Opened<'a, 'py> {
    Leaf(Term<'a>),
    Inside(Frame<'py>),
}

/// A container whose elements are being converted.
struct Frame<'py> {
    object: Bound<'py, PyAny>,
    shape: Shape,
    children: Children<'py>,
    /// The references to a child: of the container, of `children` and of the walk.
    held: Held,
    /// How many children have been taken.
    taken: usize,
    /// Where its terms begin in [`Walk::words`].
    start: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    List,
    Tuple,
    Set,
    FrozenSet,
    /// Keys and values alternate.
    Map,
    /// Becomes a map whose keys are the names of fields.
    Fields,
}

enum Children<'py> {
    /// May change while its elements are converted, if that runs Python code; so each step reads it
    /// again.
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
    Taken(Vec<Bound<'py, PyAny>>),
}

/// Converts a leaf or opens a container. Exact types come first, frequent ones before others: one
/// comparison of pointers each. Subclasses and the rest come afterwards.
#[inline]
fn open<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
    options: ValueOptions,
    known: Known,
) -> Result<Opened<'a, 'py>, ConvertError> {
    Ok(Opened::Leaf(
        if let Ok(text) = value.cast_exact::<PyString>() {
            text_to_term(env, text)?
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            integers::to_term(env, number)?
        } else if value.is_none() {
            options.none.encode(env)
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            truth.is_true().encode(env)
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            float(env, number.value(), options)?
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            return Ok(inside(
                value,
                Shape::List,
                Children::List(list.clone()),
                known.held,
            ));
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            return Ok(inside(
                value,
                Shape::Tuple,
                Children::Tuple(tuple.clone()),
                known.held,
            ));
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            return Ok(inside(value, Shape::Map, items(dict), known.held));
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            shared_bytes::of_bytes(env, bytes)
        } else if value.get_type().is(atoms::class(value.py())?) {
            atoms::to_atom(value.cast().map_err(PyErr::from)?)?.encode(env)
        } else if let Ok(pid) = value.cast_exact::<Pid>() {
            pid.get().in_env(env)
        } else if let Ok(reference) = value.cast_exact::<Ref>() {
            reference.get().in_env(env)
        } else {
            return open_other(env, value, options, known);
        },
    ))
}

/// Our other types, then types of the standard library and numpy, then subclasses.
fn open_other<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
    options: ValueOptions,
    known: Known,
) -> Result<Opened<'a, 'py>, ConvertError> {
    if let Some(encoded) = converters::encode(value)? {
        return instead(env, value, &encoded, options, known);
    }
    Ok(Opened::Leaf(if let Ok(port) = value.cast_exact::<Port>() {
        port.get().in_env(env)
    } else if let Ok(fun) = value.cast_exact::<Fun>() {
        fun.get().in_env(env)
    } else if let Ok(handle) = value.cast_exact::<ObjectHandle>() {
        handle.get().in_env(env)
    } else if let Ok(bits) = value.cast_exact::<BitString>() {
        bit_string::to_term(env, bits.get())?
    } else if is_built_in(value) {
        return open_subclass(env, value, options);
    } else {
        // Before subclasses: an Enum or a dataclass can be one of int, str or dict too.
        match outgoing::find(env, value, known.held)? {
            Rare::Term(term) => term,
            Rare::Instead(other) => return instead(env, value, &other, options, known),
            Rare::Fields(fields) => {
                return Ok(inside(value, Shape::Fields, Children::Taken(fields), 0));
            }
            Rare::Unknown => return open_subclass(env, value, options),
        }
    }))
}

/// Converts `other`, which stands for `value`. An Enum's value may be an Enum, but not endlessly.
fn instead<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
    options: ValueOptions,
    known: Known,
) -> Result<Opened<'a, 'py>, ConvertError> {
    let known = Known {
        held: 1,
        stand_ins: known.stand_ins + 1,
    };
    match known.stand_ins <= 8 {
        true => open(env, other, options, known),
        false => Err(unknown(value)),
    }
}

fn open_subclass<'a, 'py>(
    env: Env<'a>,
    value: &Bound<'py, PyAny>,
    options: ValueOptions,
) -> Result<Opened<'a, 'py>, ConvertError> {
    Ok(Opened::Leaf(if let Ok(text) = value.cast::<PyString>() {
        text_to_term(env, text)?
    } else if let Ok(number) = value.cast::<PyInt>() {
        integers::to_term(env, number)?
    } else if let Ok(number) = value.cast::<PyFloat>() {
        float(env, number.value(), options)?
    } else if let Ok(list) = value.cast::<PyList>() {
        return Ok(inside(value, Shape::List, Children::List(list.clone()), 0));
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        if options.namedtuple_maps
            && let Some(fields) = outgoing::namedtuple_fields(tuple)?
        {
            return Ok(inside(value, Shape::Fields, Children::Taken(fields), 0));
        }
        return Ok(inside(
            value,
            Shape::Tuple,
            Children::Tuple(tuple.clone()),
            0,
        ));
    } else if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(inside(value, Shape::Map, items(dict), 0));
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        shared_bytes::of_bytes(env, bytes)
    } else if value.cast::<PySet>().is_ok() {
        return Ok(inside(value, Shape::Set, members(value)?, 0));
    } else if value.cast::<PyFrozenSet>().is_ok() {
        return Ok(inside(value, Shape::FrozenSet, members(value)?, 0));
    } else if let Ok(bytes) = value.cast::<PyByteArray>() {
        shared_bytes::of_bytearray(env, bytes)
    } else if value.cast::<PyMemoryView>().is_ok() {
        match shared_bytes::of_view(env, value)? {
            Some(binary) => binary,
            None => {
                let bytes = value.call_method0("tobytes")?;
                shared_bytes::of_bytes(env, &bytes.cast_into().map_err(PyErr::from)?)
            }
        }
    } else if let Ok(number) = value.cast::<PyComplex>() {
        let (real, imaginary) = (finite(env, number.real())?, finite(env, number.imag())?);
        (names::complex(), real, imaginary).encode(env)
    } else {
        return Err(unknown(value));
    }))
}

/// Uses Python's own iterator, which raises if a subclass does, or if the set changes.
fn members<'py>(set: &Bound<'py, PyAny>) -> PyResult<Children<'py>> {
    Ok(Children::Taken(set.try_iter()?.collect::<PyResult<_>>()?))
}

fn is_built_in(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PySet>()
        || value.is_exact_instance_of::<PyFrozenSet>()
        || value.is_exact_instance_of::<PyByteArray>()
        || value.is_exact_instance_of::<PyMemoryView>()
        || value.is_exact_instance_of::<PyComplex>()
}

fn unknown(value: &Bound<'_, PyAny>) -> ConvertError {
    let class = type_name(value);
    let instead = match value.cast::<PyIterator>().is_ok() || class.contains("async_generator") {
        true => "py:stream/3 calls the function and sends the items one by one",
        false => "the option return => ref, or erlang.Handle(...), sends a reference to it",
    };
    ConvertError::refused(format!("cannot send {class} to Erlang; {instead}"))
}

fn text_to_term<'a>(env: Env<'a>, text: &Bound<'_, PyString>) -> Result<Term<'a>, ConvertError> {
    shared_bytes::of_str(env, text).map_err(|_| {
        ConvertError::refused(
            "a str with lone surrogates has no UTF-8; send its bytes, as in \
             text.encode(\"utf-8\", \"surrogatepass\")",
        )
    })
}

fn float(env: Env<'_>, number: f64, options: ValueOptions) -> Result<Term<'_>, ConvertError> {
    match options.non_finite_atoms && !number.is_finite() {
        false => finite(env, number),
        true if number.is_nan() => Ok(names::not_a_number().encode(env)),
        true if number > 0.0 => Ok(names::inf().encode(env)),
        true => Ok(names::minus_inf().encode(env)),
    }
}

fn finite(env: Env<'_>, number: f64) -> Result<Term<'_>, ConvertError> {
    match number.is_finite() {
        true => Ok(number.encode(env)),
        false => Err(ConvertError::refused(format!(
            "Erlang has no float for {}; send None, a str or an erlang.Atom",
            if number.is_nan() { "nan" } else { "inf" }
        ))),
    }
}

/// No Python code runs here, so the dict does not change.
fn items<'py>(dict: &Bound<'py, PyDict>) -> Children<'py> {
    let mut items = Vec::with_capacity(2 * dict.len());
    for (key, value) in dict.iter() {
        items.push(key);
        items.push(value);
    }
    Children::Taken(items)
}

#[inline]
fn inside<'a, 'py>(
    object: &Bound<'py, PyAny>,
    shape: Shape,
    children: Children<'py>,
    held: Held,
) -> Opened<'a, 'py> {
    // `children` may refer to the container, and those that were taken are in a Vec.
    let (own, of_child) = match &children {
        Children::List(_) | Children::Tuple(_) => (1, 2),
        Children::Taken(_) => (0, 3),
    };
    let is_sole = held > 0 && arrays::references(object) == held + own;
    Opened::Inside(Frame {
        held: if is_sole { of_child } else { 0 },
        object: object.clone(),
        shape,
        children,
        taken: 0,
        start: 0,
    })
}

struct Walk<'a, 'py> {
    env: Env<'a>,
    options: ValueOptions,
    /// From the outermost container inwards.
    frames: Vec<Frame<'py>>,
    /// The finished elements of all `frames`, one after another.
    words: Vec<Word<'a>>,
    /// Buffer for the values of a map while it is created.
    values: Vec<Word<'a>>,
    count: usize,
    limit: usize,
    garbage: Garbage,
}

impl<'a, 'py> Walk<'a, 'py> {
    fn run(&mut self, outermost: Frame<'py>) -> Result<Option<Term<'a>>, ConvertError> {
        if self.garbage == Garbage::Refused && outermost.leaves_garbage() {
            return Ok(None);
        }
        self.frames.push(outermost);
        loop {
            let frame = self
                .frames
                .last_mut()
                .expect("pushed above, popped with a return");
            let known = Known {
                held: frame.held,
                stand_ins: 0,
            };
            let term = match frame.next() {
                Some(value) => match open(self.env, &value, self.options, known)? {
                    Opened::Leaf(term) => term,
                    Opened::Inside(inner) => {
                        if self.garbage == Garbage::Refused && inner.leaves_garbage() {
                            return Ok(None);
                        }
                        self.push(inner)?;
                        continue;
                    }
                },
                None => {
                    let term = self.close()?;
                    if self.frames.is_empty() {
                        return Ok(Some(term));
                    }
                    term
                }
            };
            self.words.push(term.into());
            self.count += 1;
            if self.count > self.limit {
                return Err(limits::too_many(self.limit));
            }
        }
    }

    fn push(&mut self, mut inner: Frame<'py>) -> Result<(), ConvertError> {
        let depth = self.frames.len();
        if depth >= LOOK_FOR_RECURSION && depth.is_multiple_of(LOOK_FOR_RECURSION) {
            self.refuse_recursion()?;
        }
        if depth >= MAX_DEPTH {
            return Err(ConvertError::refused("nested more than 10,000 deep"));
        }
        inner.start = self.words.len();
        self.frames.push(inner);
        Ok(())
    }

    #[cold]
    fn refuse_recursion(&mut self) -> Result<(), ConvertError> {
        let at = |frame: &Frame| frame.object.as_ptr();
        let last = self.frames.last().map(at);
        // A value that contains itself repeats; cut the path at the first repetition.
        let mut again = (0..self.frames.len()).filter(|&i| Some(at(&self.frames[i])) == last);
        if let (Some(_), Some(second)) = (again.next(), again.next()) {
            self.frames.truncate(second);
            return Err(ConvertError::refused(
                "a value that contains itself (recursion) cannot be sent",
            ));
        }
        Ok(())
    }

    /// Closes the innermost container, whose elements are complete.
    fn close(&mut self) -> Result<Term<'a>, ConvertError> {
        let Frame { shape, start, .. } = self.frames.pop().expect("called for the last frame");
        let words = &mut self.words[start..];
        let term = match shape {
            Shape::List => terms::list(self.env, words),
            Shape::Tuple if words.len() > LONGEST_TUPLE => {
                return Err(ConvertError::refused(
                    "a tuple has at most 16,777,215 elements in Erlang; send a list",
                ));
            }
            Shape::Tuple => terms::tuple(self.env, words),
            Shape::Set | Shape::FrozenSet => {
                terms::sort(words);
                if let Some(twice) = same_neighbours(words) {
                    return Err(same("members of a set", twice.term(self.env)));
                }
                let tag = match shape {
                    Shape::Set => names::set(),
                    _ => names::frozenset(),
                };
                (tag, terms::list(self.env, words)).encode(self.env)
            }
            Shape::Map | Shape::Fields => {
                // Move keys to the front and values behind them.
                let count = words.len() / 2;
                self.values.clear();
                self.values.extend(words.iter().skip(1).step_by(2));
                for index in 0..count {
                    words[index] = words[2 * index];
                }
                let keys = &mut words[..count];
                match terms::map(self.env, keys, &self.values) {
                    Some(map) => map,
                    None => {
                        terms::sort(keys);
                        let twice = same_neighbours(keys).unwrap_or(keys[0]);
                        return Err(same("keys of a dict", twice.term(self.env)));
                    }
                }
            }
        };
        self.words.truncate(start);
        Ok(term)
    }
}

fn same_neighbours<'a>(sorted: &[Word<'a>]) -> Option<Word<'a>> {
    sorted
        .windows(2)
        .find(|pair| terms::identical(pair[0], pair[1]))
        .map(|pair| pair[0])
}

fn same(what: &str, term: Term<'_>) -> ConvertError {
    let term = super::error::shortened(format!("{term:?}"));
    ConvertError::refused(format!("two {what} become the same term, {term}"))
}

impl<'py> Frame<'py> {
    #[inline]
    fn next(&mut self) -> Option<Bound<'py, PyAny>> {
        let index = self.taken;
        self.taken += 1;
        match &self.children {
            Children::List(list) if index < list.len() => list.get_item(index).ok(),
            Children::List(_) => None,
            Children::Tuple(tuple) if index < tuple.len() => tuple.get_item(index).ok(),
            Children::Tuple(_) => None,
            Children::Taken(items) => items.get(index).cloned(),
        }
    }

    fn leaves_garbage(&self) -> bool {
        match (&self.children, self.shape) {
            (Children::Taken(items), Shape::Map | Shape::Fields) => {
                terms::map_leaves_garbage(items.len() / 2)
            }
            _ => false,
        }
    }

    /// The step to the element taken last.
    fn step(&self) -> Step {
        let index = self.taken.saturating_sub(1);
        let text = |index: usize| match &self.children {
            Children::Taken(items) => items.get(index).map(key_text).unwrap_or_default(),
            _ => String::new(),
        };
        match self.shape {
            Shape::List | Shape::Tuple => Step::Index(index),
            Shape::Set | Shape::FrozenSet => Step::Member,
            Shape::Map if index.is_multiple_of(2) => Step::KeyItself(text(index)),
            Shape::Map => Step::Key(text(index - 1)),
            Shape::Fields => Step::Field(text(index & !1).trim_matches('"').to_owned()),
        }
    }
}
