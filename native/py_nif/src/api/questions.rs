//! Questions from Python: begin one, reply to it. See `py_questions`.

use rustler::{Atom, Encoder, Env, LocalPid, Term};

use crate::atoms;
use crate::beam::own_env::OwnTerm;
use crate::beam::resource::Ref;
use crate::questions::{QuestionRef, Reply, server};

/// `pid` receives questions from now on.
#[rustler::nif]
fn questions_started(env: Env<'_>, pid: LocalPid) -> Term<'_> {
    server::started(pid);
    atoms::ok().encode(env)
}

/// The calling process runs the question; `abandoned` if no caller waits for the reply.
#[rustler::nif]
fn question_begin<'a>(env: Env<'a>, question: Ref<QuestionRef>) -> Term<'a> {
    match question.0.begin(env.pid()) {
        true => atoms::ok().encode(env),
        false => atoms::abandoned().encode(env),
    }
}

#[rustler::nif]
fn question_reply<'a>(env: Env<'a>, question: Ref<QuestionRef>, value: Term<'a>) -> Term<'a> {
    if question.0.is_wanted() {
        question.0.reply(Reply::Value(OwnTerm::copy(value)));
    }
    atoms::ok().encode(env)
}

#[rustler::nif]
fn question_raise<'a>(
    env: Env<'a>,
    question: Ref<QuestionRef>,
    class: Atom,
    reason: Term<'a>,
    stacktrace: Term<'a>,
) -> Term<'a> {
    if question.0.is_wanted() {
        let raised = OwnTerm::copy((reason, stacktrace));
        question.0.reply(Reply::Raised(class, raised));
    }
    atoms::ok().encode(env)
}
