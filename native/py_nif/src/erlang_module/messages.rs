//! `erlang.send`: messages from Python to Erlang processes.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rustler::{Encoder, Env, LocalPid, Term};

use super::calls;
use crate::atoms;
use crate::beam::names;
use crate::beam::own_env::OwnEnv;
use crate::beam::own_env::OwnTerm;
use crate::convert;
use crate::convert::{Pid, Reference};

/// Sends a message to a process of this node directly. For a process on another node or an alias,
/// another process sends it, and this thread waits for that.
#[pyfunction]
#[pyo3(signature = (dest, message, /))]
pub fn _send(dest: &Bound<'_, PyAny>, message: &Bound<'_, PyAny>) -> PyResult<()> {
    convert::in_node()?;
    match local(dest)? {
        Some(pid) => send_local(&pid, message),
        None => send_by_process(dest, message),
    }
}

/// The process, if it is on this node.
fn local(dest: &Bound<'_, PyAny>) -> PyResult<Option<LocalPid>> {
    if let Ok(pid) = dest.cast::<Pid>() {
        return Ok(OwnEnv::new().with(|env| pid.get().in_env(env).decode().ok()));
    }
    if dest.is_instance_of::<PyString>() {
        return registered(dest).map(Some);
    }
    if dest.is_instance_of::<PyTuple>() || dest.is_instance_of::<Reference>() {
        return Ok(None);
    }
    Err(PyTypeError::new_err(format!(
        "a message is sent to a Pid, a Ref, a name or (name, node), not to {}",
        dest.get_type().name()?
    )))
}

pub fn registered(name: &Bound<'_, PyAny>) -> PyResult<LocalPid> {
    let found = match convert::existing_atom(name, "name") {
        Ok(atom) => names::whereis(atom),
        Err(error) if error.is_instance_of::<PyValueError>(name.py()) => None,
        Err(error) => return Err(error),
    };
    found.ok_or_else(|| {
        let text = name.str().map(|text| text.to_string()).unwrap_or_default();
        PyValueError::new_err(format!("no process is registered as {text:?}"))
    })
}

/// If the process has ended, the message is dropped silently, as in Erlang.
fn send_local(pid: &LocalPid, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let env = OwnEnv::new();
    let term = env.with(|inner| -> PyResult<_> {
        let term = convert::sent_to_term(inner, value).map_err(|error| error.within("message"))?;
        Ok(env.keep(term))
    })?;
    let _ = env.send(pid, term);
    Ok(())
}

fn send_by_process(dest: &Bound<'_, PyAny>, message: &Bound<'_, PyAny>) -> PyResult<()> {
    let call = OwnTerm::build(|env| -> PyResult<Term<'_>> {
        let dest = destination(env, dest)?;
        let message =
            convert::sent_to_term(env, message).map_err(|error| error.within("message"))?;
        let call = (
            atoms::call(),
            atoms::erlang(),
            atoms::send(),
            vec![dest, message],
        );
        Ok(call.encode(env))
    })?;
    calls::ask(dest.py(), call, None).map(drop)
}

/// A pid, an alias, `Name` or `{Name, Node}`, as `erlang:send/2` and `erlang:monitor/2` take them.
pub fn destination<'a>(env: Env<'a>, dest: &Bound<'_, PyAny>) -> PyResult<Term<'a>> {
    if let Ok(pair) = dest.cast::<PyTuple>() {
        if pair.len() != 2 {
            return Err(PyTypeError::new_err("a tuple must be (name, node)"));
        }
        let name = convert::existing_atom(&pair.get_item(0)?, "name")?;
        let node = convert::existing_atom(&pair.get_item(1)?, "node")?;
        return Ok((name, node).encode(env));
    }
    if dest.is_instance_of::<PyString>() {
        return Ok(convert::existing_atom(dest, "name")?.encode(env));
    }
    Ok(convert::to_term(env, dest)?)
}
