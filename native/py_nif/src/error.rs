//! One error type for the library, with its two translations: `{error, Reason}` for Erlang and
//! an exception for Python.

use std::fmt;

use rustler::{Encoder, Env, Term};

use crate::atoms;

/// What can fail below the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The loop sends its events to a process, so they cannot be polled.
    Callbacks,
    /// The loop was destroyed or closed.
    Closed,
    /// The core's own errors (bad fd, stale watch, errno).
    Core(event_loop::Error),
    /// Starting or using the interpreter failed; the text says why.
    Python(String),
}

pub type Result<T> = std::result::Result<T, Error>;

impl From<event_loop::Error> for Error {
    fn from(error: event_loop::Error) -> Self {
        match error {
            event_loop::Error::Closed => Error::Closed,
            other => Error::Core(other),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Callbacks => f.write_str("the loop sends its events to a process"),
            Error::Closed => f.write_str("the event loop is closed"),
            Error::Core(error) => error.fmt(f),
            Error::Python(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

/// The `Reason` of `{error, Reason}`: an atom where Erlang has a customary one (as `file` and
/// `inet` spell errno), else a binary with the text.
impl Encoder for Error {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        use event_loop::Error as Core;
        match self {
            Error::Callbacks => atoms::callbacks().encode(env),
            Error::Closed | Error::Core(Core::Closed) => atoms::closed().encode(env),
            Error::Core(Core::BadFd) => atoms::badfd().encode(env),
            Error::Core(Core::NotPollable) => atoms::eperm().encode(env),
            Error::Core(Core::Stale) => atoms::stale().encode(env),
            Error::Core(Core::Os(code)) => crate::beam::errno::atom(env, *code),
            Error::Core(other) => other.to_string().encode(env),
            Error::Python(text) => text.encode(env),
        }
    }
}

/// `{ok, Value}` or `{error, Reason}`.
pub fn ok_or_error<'a>(env: Env<'a>, result: Result<impl Encoder>) -> Term<'a> {
    match result {
        Ok(value) => (atoms::ok(), value).encode(env),
        Err(error) => (atoms::error(), error).encode(env),
    }
}

/// `ok` or `{error, Reason}`.
pub fn done_or_error(env: Env<'_>, result: Result<()>) -> Term<'_> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(error) => (atoms::error(), error).encode(env),
    }
}
