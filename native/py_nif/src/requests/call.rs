//! A request from Erlang, with its terms copied so that one of our threads can convert them.

use std::ops::Deref;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyString;
use rustler::{Binary, Env, NifResult, Term};

use super::function::{Function, FunctionRef};
use super::method::Method;
use super::options::CallOptions;
use super::request::{ReplyTo, Request};
use super::snippet::Snippet;
use crate::atoms;
use crate::beam::own_env::{EnvTerm, OwnEnv};
use crate::beam::resource::Ref;
use crate::beam::terms::Elements;
use crate::questions::{Question, chain};

pub enum Code {
    Function(FunctionRef),
    Method(Box<Method>),
    Snippet(Box<Snippet>),
}

pub struct Call {
    pub request: Ref<Request>,
    pub code: Code,
    /// Run on the loop itself, even if it is a plain function: for information about the loop.
    pub inline: bool,
    /// The question from Python that the caller is working on.
    pub question: Option<Arc<Question>>,
    /// `None`: there are no arguments, which needs no copy.
    pub input: Option<Input>,
}

/// A copy of the arguments and keyword arguments of a call, or of the variables of an eval.
pub struct Input {
    env: OwnEnv,
    args: Option<EnvTerm>,
    kwargs: Option<EnvTerm>,
}

impl Call {
    /// From `{call | inline, Module, Function, Args, Kwargs}`, where the module may be a reference to
    /// an object, `{eval, Code, Variables}` or `{exec, Code, Variables}`.
    ///
    /// `None`: the process to reply to is dead.
    pub fn decode<'a>(
        env: Env<'a>,
        term: Term<'a>,
        options: CallOptions,
        reply_to: ReplyTo<'a>,
        leader: Term<'a>,
    ) -> NifResult<Option<Self>> {
        let parts = Elements::of(term).ok_or(rustler::Error::BadArg)?;
        let kind: rustler::Atom = parts.get(0).ok_or(rustler::Error::BadArg)?.decode()?;
        let inline = kind == atoms::inline();
        let rest: [_; 5] = std::array::from_fn(|index| parts.get(index + 1));
        let (code, args, kwargs) = match rest {
            [Some(module), Some(function), Some(args), Some(kwargs), None]
                if inline || kind == atoms::call() =>
            {
                if args.list_length().is_err() || !kwargs.is_map() || !options.snippet.is_empty() {
                    return Err(rustler::Error::BadArg);
                }
                let code = match module.is_ref() && !inline {
                    true => Code::Method(Box::new(Method::decode(module, function)?)),
                    false => Code::Function(Function::named(module, function)?),
                };
                (code, Some(args), kwargs)
            }
            [Some(code), Some(variables), None, ..]
                if variables.is_map() && (kind == atoms::eval() || kind == atoms::exec()) =>
            {
                let snippet = Snippet {
                    source: text(code)?,
                    wants_value: kind == atoms::eval(),
                    options: options.snippet,
                };
                (Code::Snippet(Box::new(snippet)), None, variables)
            }
            _ => return Err(rustler::Error::BadArg),
        };
        let args = args.filter(|args| !args.is_empty_list());
        let kwargs = Some(kwargs).filter(|kwargs| !matches!(kwargs.map_size(), Ok(0)));
        Ok(
            Request::new(env, code.name(), reply_to, options.result, leader).map(|request| Call {
                request,
                code,
                inline,
                question: chain::question_of(&env.pid()),
                input: Input::copy(args, kwargs),
            }),
        )
    }
}

impl Input {
    fn copy(args: Option<Term<'_>>, kwargs: Option<Term<'_>>) -> Option<Self> {
        if args.is_none() && kwargs.is_none() {
            return None;
        }
        let env = OwnEnv::new();
        Some(Input {
            args: args.map(|args| env.keep_copy(args)),
            kwargs: kwargs.map(|kwargs| env.keep_copy(kwargs)),
            env,
        })
    }

    pub fn args(&self) -> Option<Term<'_>> {
        self.args.map(|args| self.env.load(args))
    }

    /// Keyword arguments or variables.
    pub fn kwargs(&self) -> Option<Term<'_>> {
        self.kwargs.map(|kwargs| self.env.load(kwargs))
    }
}

impl Code {
    /// For reports: `module.function`, a type and its method, or the beginning of the code.
    fn name(&self) -> Name {
        match self {
            Code::Function(function) => Name::Function(function.clone()),
            Code::Method(method) => Name::Code(method.full_name()),
            Code::Snippet(snippet) => Name::Code(snippet.name()),
        }
    }
}

/// The name of a request.
pub enum Name {
    Function(FunctionRef),
    /// Of a method, or of code.
    Code(String),
}

impl Name {
    pub fn in_python<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self {
            Name::Function(function) => function.names(py).full.bind(py).clone(),
            Name::Code(beginning) => PyString::new(py, beginning),
        }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Name::Function(function) => &function.name,
            Name::Code(beginning) => beginning,
        }
    }
}

/// Names and code arrive as atoms, UTF-8 binaries or strings.
pub fn text(term: Term<'_>) -> NifResult<String> {
    let bad = |_| rustler::Error::BadArg;
    if term.is_binary() {
        let bytes: Binary<'_> = term.decode()?;
        return String::from_utf8(bytes.as_slice().to_vec()).map_err(bad);
    }
    if term.is_atom() {
        return term.atom_to_string();
    }
    term.list_length()?;
    let points: Vec<u32> = term.decode()?;
    points
        .into_iter()
        .map(|point| char::from_u32(point).ok_or(rustler::Error::BadArg))
        .collect()
}
