//! The Erlang function that Python calls: converts its name and arguments to the term that
//! `py_questions` runs.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rustler::{Encoder, Env, Term};

use crate::asyncio::origin;
use crate::atoms;
use crate::beam::own_env::OwnTerm;
use crate::convert;

/// The function to be called.
pub enum Target<'a, 'py> {
    Function {
        module: &'a Bound<'py, PyAny>,
        function: &'a Bound<'py, PyAny>,
        node: Option<&'a Bound<'py, PyAny>>,
    },
    Fun(&'a convert::Fun),
}

impl Target<'_, '_> {
    /// `{call, ...}` or `{apply, ...}`, as `py_questions` runs it; within a trace
    /// `{traced, Traceparent, Call}`.
    pub fn call(&self, args: &Bound<'_, PyAny>) -> PyResult<OwnTerm> {
        let args = arguments(args)?;
        let trace = origin::outgoing_trace(args.py());
        OwnTerm::build(|env| -> PyResult<Term<'_>> {
            let args =
                convert::sent_to_term(env, args.as_any()).map_err(|error| error.within("args"))?;
            let call = self.encode(env, args)?;
            Ok(match &trace {
                None => call,
                Some(trace) => (atoms::traced(), trace.as_str(), call).encode(env),
            })
        })
    }

    fn encode<'b>(&self, env: Env<'b>, args: Term<'b>) -> PyResult<Term<'b>> {
        Ok(match self {
            Target::Function {
                module,
                function,
                node,
            } => {
                let module = convert::existing_atom(module, "module")?;
                let function = convert::existing_atom(function, "function")?;
                match node {
                    None => (atoms::call(), module, function, args).encode(env),
                    Some(node) => {
                        let node = convert::existing_atom(node, "node")?;
                        (atoms::call(), node, module, function, args).encode(env)
                    }
                }
            }
            Target::Fun(fun) => (atoms::apply(), fun.in_env(env), args).encode(env),
        })
    }
}

/// A list or a tuple. Text is a sequence too, but not of arguments.
fn arguments<'py>(args: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    if let Ok(list) = args.cast::<PyList>() {
        return Ok(list.clone());
    }
    match args.cast::<PyTuple>() {
        Ok(tuple) => Ok(tuple.to_list()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "args must be a list or a tuple, not {}",
            args.get_type().name()?
        ))),
    }
}
