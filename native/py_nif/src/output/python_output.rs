//! The native functions of the package `erlang_output`: Python's streams and its log records.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rustler::{Encoder, Env, Term};

use super::device;
use super::device::Sent;
use super::events;
use super::events::Admission;
use super::lines;
use super::lines::Stream;
use crate::asyncio::origin;
use crate::atoms;
use crate::convert;
use crate::convert::named;
use crate::loops::Target;

/// Adds the native parts of the package `erlang_output` to the native module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_write, module)?)?;
    module.add_function(wrap_pyfunction!(_flush, module)?)?;
    module.add_function(wrap_pyfunction!(_log, module)?)
}

fn stream(number: u8) -> PyResult<Stream> {
    match number {
        1 => Ok(Stream::Out),
        2 => Ok(Stream::Error),
        _ => Err(PyValueError::new_err("1 is stdout, 2 is stderr")),
    }
}

/// Writes to a group leader: whole lines at once, the rest when its line ends or is flushed.
/// Returns `False` if there is no Erlang to write to.
#[pyfunction]
#[pyo3(signature = (stream, data, /))]
pub fn _write(py: Python<'_>, stream: u8, data: &Bound<'_, PyAny>) -> PyResult<bool> {
    let stream = self::stream(stream)?;
    let bytes = PyBuffer::<u8>::get(data)?.to_vec(py)?;
    let Some(target) = open_target(py) else {
        return Ok(false);
    };
    Ok(match lines::add(&target, stream, &bytes) {
        Some(text) => send(py, &target, &text),
        None => true,
    })
}

/// Sends the unfinished line.
#[pyfunction]
#[pyo3(signature = (stream, /))]
pub fn _flush(py: Python<'_>, stream: u8) -> PyResult<()> {
    let stream = self::stream(stream)?;
    if let Some(target) = open_target(py)
        && let Some(text) = lines::take(&target, stream)
    {
        send(py, &target, &text);
    }
    Ok(())
}

fn open_target(py: Python<'_>) -> Option<Target> {
    device::is_open().then(|| origin::target(py)).flatten()
}

fn send(py: Python<'_>, target: &Target, text: &str) -> bool {
    let mut sent = device::send(target, text);
    if sent == Sent::No {
        // The group leader is dead.
        return Target::user().is_some_and(|user| device::send_anyway(&user, text) == Sent::Yes);
    }
    if sent == Sent::Full {
        sent = py.detach(|| device::send_waiting(target, text));
    }
    // What was dropped is counted, and `py_output` reports it.
    sent != Sent::No
}

/// Sends a log record to `py_logger`. Returns `False` if it has no receiver, or came from a handler
/// of Erlang's own log.
#[pyfunction]
#[pyo3(signature = (level, message, created, place, extra, exception, /))]
pub fn _log(
    py: Python<'_>,
    level: i64,
    message: &Bound<'_, PyString>,
    created: f64,
    place: Source<'_>,
    extra: Option<Bound<'_, PyDict>>,
    exception: Option<Bound<'_, PyAny>>,
) -> bool {
    match events::admit(origin::current(py).map(|origin| origin.caller)) {
        Admission::No => return false,
        Admission::Dropped => return true,
        Admission::Yes => {}
    }
    let exception = exception.map(PyErr::from_value);
    events::send(|env| {
        let failed = match &exception {
            Some(error) => named::exception(env, py, error),
            None => atoms::none().encode(env),
        };
        let metadata = metadata(env, created, &place, extra.as_ref());
        let text = text(message);
        (atoms::py_log(), level, text, metadata, failed).encode(env)
    })
}

/// Logger, module, file, line, function, thread, task.
type Source<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    i64,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Option<Bound<'py, PyString>>,
);

fn metadata<'a>(
    env: Env<'a>,
    created: f64,
    place: &Source<'_>,
    extra: Option<&Bound<'_, PyDict>>,
) -> Term<'a> {
    let (logger, module, file, line, function, thread, task) = place;
    let mut pairs = vec![
        (atoms::logger_name(), text(logger).encode(env)),
        (atoms::module(), text(module).encode(env)),
        (atoms::file(), text(file).encode(env)),
        (atoms::function(), text(function).encode(env)),
        (atoms::thread(), text(thread).encode(env)),
        (atoms::line(), line.encode(env)),
        // Microseconds, as in logger:timestamp/0.
        (atoms::time(), ((created * 1e6) as i64).encode(env)),
    ];
    if let Some(task) = task {
        pairs.push((atoms::task(), text(task).encode(env)));
    }
    if let Some(extra) = extra {
        pairs.push((atoms::extra(), extras(env, extra)));
    }
    Term::map_from_pairs(env, &pairs).expect("the keys differ")
}

/// The `extra` of a program; a value that cannot be converted becomes text.
fn extras<'a>(env: Env<'a>, extra: &Bound<'_, PyDict>) -> Term<'a> {
    let mut map = Term::map_new(env);
    for (key, value) in extra {
        let value = match convert::to_term(env, &value) {
            Ok(term) => term,
            Err(_) => match value.repr() {
                Ok(shown) => text(&shown).encode(env),
                Err(_) => "<its repr() failed>".encode(env),
            },
        };
        if let Ok(key) = key.cast::<PyString>() {
            map = map.map_put(text(key), value).unwrap_or(map);
        }
    }
    map
}

/// Lone surrogates cannot be encoded as UTF-8, and logging must not fail for that.
fn text(text: &Bound<'_, PyString>) -> String {
    text.to_string_lossy().into_owned()
}
