//! Errors as data: a Python exception as a map, an Erlang exception as `erlang.Error`.
//!
//! Neither fails: what cannot be converted is shown as text, what is too large is cut.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use rustler::{Atom, Encoder, Env, Term};

use crate::atoms as names;

/// Bytes of a message, a note, a line of source.
const MAX_TEXT: usize = 16 << 10;
/// Of one traceback. Endless recursion has a thousand that are all the same.
const MAX_FRAMES: usize = 100;
/// Exceptions in one: causes, contexts, members of groups.
const MAX_EXCEPTIONS: usize = 100;
/// Of those, one below another.
const MAX_CHAIN: usize = 20;
const MAX_NOTES: usize = 20;

/// `#{type, message, traceback, cause, context, notes, exceptions}`.
pub fn to_term<'a>(env: Env<'a>, py: Python<'_>, error: &PyErr) -> Term<'a> {
    let mut walk = Walk {
        env,
        above: Vec::new(),
        left: MAX_EXCEPTIONS,
    };
    // Before Python 3.12 the traceback is kept beside the exception until this is called.
    walk.describe(error.clone_ref(py).into_value(py).bind(py).as_any())
}

struct Walk<'a, 'py> {
    env: Env<'a>,
    /// The exceptions that this one belongs to; one of them again would never end.
    above: Vec<Bound<'py, PyAny>>,
    left: usize,
}

impl<'a, 'py> Walk<'a, 'py> {
    fn describe(&mut self, error: &Bound<'py, PyAny>) -> Term<'a> {
        let env = self.env;
        self.left -= 1;
        self.above.push(error.clone());
        let suppressed = attribute(error, "__suppress_context__")
            .is_some_and(|answer| answer.is_truthy().unwrap_or(false));
        let context = match suppressed {
            true => names::none().encode(env),
            false => self.other(attribute(error, "__context__")),
        };
        let pairs: [(Atom, Term<'a>); 7] = [
            (names::type_(), class_name(error).encode(env)),
            (names::message(), message(error).encode(env)),
            (names::traceback(), self.traceback(error)),
            (names::cause(), self.other(attribute(error, "__cause__"))),
            (names::context(), context),
            (names::notes(), self.notes(error)),
            (names::exceptions(), self.members(error)),
        ];
        self.above.pop();
        Term::map_from_pairs(env, &pairs).expect("the keys differ")
    }

    /// A cause or a context; `none` also for what would go on for ever.
    fn other(&mut self, error: Option<Bound<'py, PyAny>>) -> Term<'a> {
        let known = |error: &Bound<'py, PyAny>| self.above.iter().any(|one| one.is(error));
        match error {
            Some(error) if self.left > 0 && self.above.len() < MAX_CHAIN && !known(&error) => {
                self.describe(&error)
            }
            _ => names::none().encode(self.env),
        }
    }

    /// Of an exception group.
    fn members(&mut self, error: &Bound<'py, PyAny>) -> Term<'a> {
        let mut found = Vec::new();
        if is_group(error) {
            let members = attribute(error, "exceptions").and_then(|all| all.try_iter().ok());
            for member in members.into_iter().flatten().map_while(Result::ok) {
                if self.left == 0 || self.above.len() >= MAX_CHAIN {
                    break;
                }
                found.push(self.describe(&member));
            }
        }
        found.encode(self.env)
    }

    fn notes(&self, error: &Bound<'py, PyAny>) -> Term<'a> {
        let notes = attribute(error, "__notes__").and_then(|notes| notes.try_iter().ok());
        // To the first that cannot be had: an iterator may raise for ever.
        let notes = notes.into_iter().flatten().map_while(Result::ok);
        let texts = notes.take(MAX_NOTES);
        texts
            .map(|note| text_of(&note))
            .collect::<Vec<_>>()
            .encode(self.env)
    }

    /// From the outermost call to the one that raised.
    fn traceback(&self, error: &Bound<'py, PyAny>) -> Term<'a> {
        let mut next = attribute(error, "__traceback__");
        let mut all = Vec::new();
        while let Some(entry) = next {
            next = attribute(&entry, "tb_next");
            all.push(entry);
        }
        let mut frames: Vec<Term<'a>> = Vec::new();
        let left_out = all.len().saturating_sub(MAX_FRAMES);
        for (index, entry) in all.iter().enumerate() {
            match index.checked_sub(MAX_FRAMES / 2) {
                Some(0) if left_out > 0 => {
                    let told = format!("... {left_out} more calls ...");
                    frames.push(self.frame("", 0, &told, ""));
                }
                Some(after) if after < left_out => {}
                _ => frames.push(self.call(entry)),
            }
        }
        frames.encode(self.env)
    }

    fn call(&self, entry: &Bound<'py, PyAny>) -> Term<'a> {
        let line = attribute(entry, "tb_lineno").and_then(|line| line.extract::<i64>().ok());
        let line = line.unwrap_or(0);
        let frame = attribute(entry, "tb_frame");
        let code = frame.as_ref().and_then(|frame| attribute(frame, "f_code"));
        let part = |name: &str| {
            code.as_ref()
                .and_then(|code| attribute(code, name))
                .map(|text| text_of(&text))
        };
        let file = part("co_filename").unwrap_or_default();
        // With the class, from Python 3.11 on.
        let function = part("co_qualname")
            .or_else(|| part("co_name"))
            .unwrap_or_default();
        let globals = frame.and_then(|frame| attribute(&frame, "f_globals"));
        let source = source_line(entry.py(), &file, line, globals).unwrap_or_default();
        self.frame(&file, line, &function, source.trim())
    }

    fn frame(&self, file: &str, line: i64, function: &str, source: &str) -> Term<'a> {
        let env = self.env;
        let pairs = [
            (names::file(), file.encode(env)),
            (names::line(), line.encode(env)),
            (names::function(), function.encode(env)),
            (names::source(), source.encode(env)),
        ];
        Term::map_from_pairs(env, &pairs).expect("the keys differ")
    }
}

fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> Option<Bound<'py, PyAny>> {
    object.getattr(name).ok().filter(|value| !value.is_none())
}

/// `builtins.ValueError`
fn class_name(error: &Bound<'_, PyAny>) -> String {
    let class = error.get_type();
    let part = |name: &str| attribute(class.as_any(), name).map(|text| text_of(&text));
    match (part("__module__"), part("__qualname__")) {
        (Some(module), Some(name)) => format!("{module}.{name}"),
        (_, name) => name.unwrap_or_default(),
    }
}

fn message(error: &Bound<'_, PyAny>) -> String {
    match error.str() {
        Ok(text) => bounded(text.to_string_lossy().into_owned()),
        Err(_) => "<its str() failed>".to_owned(),
    }
}

fn text_of(value: &Bound<'_, PyAny>) -> String {
    match value.str() {
        Ok(text) => bounded(text.to_string_lossy().into_owned()),
        Err(_) => String::new(),
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT)
            .rev()
            .find(|&end| text.is_char_boundary(end))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Groups are there from Python 3.11 on.
fn is_group(error: &Bound<'_, PyAny>) -> bool {
    let py = error.py();
    py.import("builtins")
        .and_then(|builtins| builtins.getattr("BaseExceptionGroup"))
        .and_then(|class| error.is_instance(&class))
        .unwrap_or(false)
}

/// As the traceback module finds it.
fn source_line(
    py: Python<'_>,
    file: &str,
    line: i64,
    globals: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    static GET_LINE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let line = GET_LINE
        .import(py, "linecache", "getline")?
        .call1((file, line, globals))?;
    Ok(text_of(&line))
}

/// `erlang.Error`
fn erlang_error(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    ERROR.import(py, "erlang.errors", "Error")
}

pub fn is_erlang_error(error: &Bound<'_, PyAny>) -> bool {
    erlang_error(error.py())
        .and_then(|class| error.is_instance(class))
        .unwrap_or(false)
}

/// `erlang.Error(kind, reason, stacktrace)`, for what Erlang calls class, reason, stacktrace.
pub fn from_erlang(py: Python<'_>, kind: &str, reason: Term<'_>, stacktrace: Term<'_>) -> PyErr {
    let text = shortened_term(reason);
    let reason = match super::to_python(py, reason) {
        Ok(reason) => reason.unbind(),
        // A reason that has no form in Python is told as Erlang prints it.
        Err(_) => match text.as_str().into_pyobject(py) {
            Ok(text) => text.into_any().unbind(),
            Err(never) => match never {},
        },
    };
    let stacktrace = super::to_python(py, stacktrace)
        .map(Bound::unbind)
        .unwrap_or_else(|_| py.None());
    match erlang_error(py) {
        Ok(class) => PyErr::from_type(class.clone(), (kind.to_owned(), reason, stacktrace, text)),
        Err(error) => error,
    }
}

fn shortened_term(term: Term<'_>) -> String {
    bounded(format!("{term:?}"))
}
