//! Errors as data: a Python exception as a map, an Erlang exception as `erlang.Error`.
//!
//! Neither direction fails: what cannot be converted becomes text, what is too large is truncated.

use pyo3::exceptions::{PyBaseExceptionGroup, PySyntaxError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use rustler::{Atom, Encoder, Env, Term};

use crate::atoms;

/// Maximum size in bytes of a message, a note, a source line.
const MAX_TEXT: usize = 16 << 10;
/// Maximum length of a traceback. Endless recursion has a thousand equal frames.
const MAX_FRAMES: usize = 100;
/// Maximum number of exceptions in one: causes, contexts, members of groups.
const MAX_EXCEPTIONS: usize = 100;
/// Maximum length of a chain of these.
const MAX_CHAIN: usize = 20;
const MAX_NOTES: usize = 20;

/// `#{type, message, traceback, cause, context, notes, exceptions}`, and `syntax` for a
/// SyntaxError.
pub fn to_term<'a>(env: Env<'a>, py: Python<'_>, error: &PyErr) -> Term<'a> {
    let mut walk = Walk {
        env,
        above: Vec::new(),
        left: MAX_EXCEPTIONS,
    };
    // Before Python 3.12 the traceback is stored outside the exception until this call.
    walk.describe(error.clone_ref(py).into_value(py).bind(py).as_any())
}

struct Walk<'a, 'py> {
    env: Env<'a>,
    /// The exceptions that contain this one. Skipping these ends cycles.
    above: Vec<Bound<'py, PyAny>>,
    left: usize,
}

impl<'a, 'py> Walk<'a, 'py> {
    fn describe(&mut self, error: &Bound<'py, PyAny>) -> Term<'a> {
        let env = self.env;
        self.left -= 1;
        self.above.push(error.clone());
        let suppressed = attribute(error, "__suppress_context__")
            .is_some_and(|result| result.is_truthy().unwrap_or(false));
        let context = match suppressed {
            true => atoms::none().encode(env),
            false => self.other(attribute(error, "__context__")),
        };
        let mut pairs: Vec<(Atom, Term<'a>)> = vec![
            (atoms::type_(), class_name(error).encode(env)),
            (atoms::message(), message(error).encode(env)),
            (atoms::traceback(), self.traceback(error)),
            (atoms::cause(), self.other(attribute(error, "__cause__"))),
            (atoms::context(), context),
            (atoms::notes(), self.notes(error)),
            (atoms::exceptions(), self.members(error)),
        ];
        if let Some(syntax) = self.syntax(error) {
            pairs.push((atoms::syntax(), syntax));
        }
        self.above.pop();
        Term::map_from_pairs(env, &pairs).expect("the keys differ")
    }

    /// A cause or a context; `none` also where the chain would be a cycle.
    fn other(&mut self, error: Option<Bound<'py, PyAny>>) -> Term<'a> {
        let known = |error: &Bound<'py, PyAny>| self.above.iter().any(|one| one.is(error));
        match error {
            Some(error) if self.left > 0 && self.above.len() < MAX_CHAIN && !known(&error) => {
                self.describe(&error)
            }
            _ => atoms::none().encode(self.env),
        }
    }

    /// The members of an exception group.
    fn members(&mut self, error: &Bound<'py, PyAny>) -> Term<'a> {
        let mut found = Vec::new();
        if error.is_instance_of::<PyBaseExceptionGroup>() {
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
        // Stops at the first error: an iterator may raise forever.
        let notes = notes.into_iter().flatten().map_while(Result::ok);
        let texts = notes.take(MAX_NOTES);
        texts
            .map(|note| text_of(&note))
            .collect::<Vec<_>>()
            .encode(self.env)
    }

    /// The position of a SyntaxError, and what Python prints of it: the line with carets below the
    /// position, the message, the notes.
    fn syntax(&self, error: &Bound<'py, PyAny>) -> Option<Term<'a>> {
        let env = self.env;
        if !error.is_instance_of::<PySyntaxError>() {
            return None;
        }
        let number = |name: &str| match attribute(error, name).map(|number| number.extract::<u32>())
        {
            Some(Ok(number)) => number.encode(env),
            _ => atoms::none().encode(env),
        };
        let file = attribute(error, "filename").map(|file| text_of(&file));
        let pairs = [
            (atoms::file(), file.unwrap_or_default().encode(env)),
            (atoms::line(), number("lineno")),
            (atoms::column(), number("offset")),
            (atoms::text(), bounded(printed(error).ok()?).encode(env)),
        ];
        Some(Term::map_from_pairs(env, &pairs).expect("the keys differ"))
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
                    let omitted = format!("... {left_out} more calls ...");
                    frames.push(self.frame("", 0, &omitted, ""));
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
        let function = part("co_qualname").unwrap_or_default();
        let globals = frame.and_then(|frame| attribute(&frame, "f_globals"));
        let source = source_line(entry.py(), &file, line, globals).unwrap_or_default();
        self.frame(&file, line, &function, source.trim())
    }

    fn frame(&self, file: &str, line: i64, function: &str, source: &str) -> Term<'a> {
        let env = self.env;
        let pairs = [
            (atoms::file(), file.encode(env)),
            (atoms::line(), line.encode(env)),
            (atoms::function(), function.encode(env)),
            (atoms::source(), source.encode(env)),
        ];
        Term::map_from_pairs(env, &pairs).expect("the keys differ")
    }
}

fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> Option<Bound<'py, PyAny>> {
    object.getattr(name).ok().filter(|value| !value.is_none())
}

/// The type of a value: `builtins.ValueError`.
pub fn class_name(value: &Bound<'_, PyAny>) -> String {
    let class = value.get_type();
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

/// As the traceback module prints it, without the traceback.
fn printed(error: &Bound<'_, PyAny>) -> PyResult<String> {
    static FORMAT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let format = FORMAT.import(error.py(), "traceback", "format_exception_only")?;
    let lines: Vec<Bound<'_, PyString>> = format.call1((error,))?.extract()?;
    let lines = lines.iter().map(|line| line.to_string_lossy().into_owned());
    Ok(lines.collect())
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
        // A reason that cannot be converted is shown as Erlang prints it.
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
