//! Channels (`py_channel`): references that become an `erlang.Channel`, and become references again.
//!
//! What a channel is, `mailboxes` and `erlang_module` say; these folders use this one. So they set
//! the functions.

use std::sync::OnceLock;

use pyo3::prelude::*;
use rustler::{Env, Term};

pub struct ChannelConversion {
    /// `None`: the reference is not a channel.
    pub to_python: for<'py> fn(Python<'py>, Term<'_>) -> PyResult<Option<Bound<'py, PyAny>>>,
    /// `None`: the object is not a channel.
    pub to_term: for<'a> fn(Env<'a>, &Bound<'_, PyAny>) -> Option<Term<'a>>,
}

pub static CHANNELS: OnceLock<ChannelConversion> = OnceLock::new();

pub fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match CHANNELS.get() {
        Some(channels) => (channels.to_python)(py, term),
        None => Ok(None),
    }
}

pub fn to_term<'a>(env: Env<'a>, value: &Bound<'_, PyAny>) -> Option<Term<'a>> {
    (CHANNELS.get()?.to_term)(env, value)
}
