//! What Erlang asks for, with its terms copied so that a thread of ours can convert them.

use std::sync::Arc;

use rustler::env::SavedTerm;
use rustler::{Binary, Env, NifResult, OwnedEnv, Term};

use super::{Asker, Task};
use crate::atoms;
use crate::beam::resource::Ref;
use crate::questions::{chain, Question};

pub enum What {
    /// A function by its module and its name, which may be dotted: `Class.method`.
    Call {
        module: String,
        function: String,
    },
    Eval(String),
    Exec(String),
}

pub struct Request {
    pub task: Ref<Task>,
    pub what: What,
    /// Called on the loop itself, though it be a plain function: questions about the loop.
    pub inline: bool,
    /// The question of Python that the caller answers by asking this.
    pub asked_for: Option<Arc<Question>>,
    env: OwnedEnv,
    /// `{Args, Kwargs}` of a call, the variables of an eval.
    terms: SavedTerm,
}

impl Request {
    /// From `{call | inline, Module, Function, Args, Kwargs}`, `{eval, Code, Variables}` or
    /// `{exec, Code, Variables}`.
    ///
    /// `None`: the one who is to be answered is dead.
    pub fn decode<'a>(env: Env<'a>, term: Term<'a>, asker: Asker<'a>) -> NifResult<Option<Self>> {
        let parts = rustler::types::tuple::get_tuple(term)?;
        let kind: rustler::Atom = parts.first().ok_or(rustler::Error::BadArg)?.decode()?;
        let inline = kind == atoms::inline();
        let (what, terms) = match parts.as_slice() {
            [_, module, function, args, kwargs] if inline || kind == atoms::call() => {
                if args.list_length().is_err() || !kwargs.is_map() {
                    return Err(rustler::Error::BadArg);
                }
                let what = What::Call {
                    module: text(*module)?,
                    function: text(*function)?,
                };
                (what, (*args, *kwargs))
            }
            [_, code, variables] if variables.is_map() && kind == atoms::eval() => {
                (What::Eval(text(*code)?), (*variables, *variables))
            }
            [_, code, variables] if variables.is_map() && kind == atoms::exec() => {
                (What::Exec(text(*code)?), (*variables, *variables))
            }
            _ => return Err(rustler::Error::BadArg),
        };
        let own = OwnedEnv::new();
        let terms = own.save(terms);
        Ok(Task::new(env, what.name(), asker).map(|task| Request {
            task,
            what,
            inline,
            asked_for: chain::answered_by(&env.pid()),
            env: own,
            terms,
        }))
    }

    /// Looks at the two terms.
    pub fn with_terms<R>(&self, look: impl FnOnce(Term<'_>, Term<'_>) -> R) -> R {
        self.env.run(|env| {
            let (first, second): (Term<'_>, Term<'_>) =
                self.terms.load(env).decode().expect("saved as a pair");
            look(first, second)
        })
    }
}

impl What {
    /// For reports: `module.function`, or the beginning of the code.
    fn name(&self) -> String {
        match self {
            What::Call { module, function } => format!("{module}.{function}"),
            What::Eval(code) | What::Exec(code) => code.chars().take(60).collect(),
        }
    }
}

/// Names and code come as atoms, UTF-8 binaries or strings.
fn text(term: Term<'_>) -> NifResult<String> {
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
