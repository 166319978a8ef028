//! Questions from Python: take one, reply to it. See `py_questions`.

use rustler::{Atom, Encoder, Env, LocalPid, Term};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::questions::{Answer, QuestionRef, Terms, server};

/// `pid` receives questions from now on.
#[rustler::nif]
fn questions_started(env: Env<'_>, pid: LocalPid) -> Term<'_> {
    server::started(pid);
    atoms::ok().encode(env)
}

/// The question, for the calling process to run; `given_up` if no caller waits for the reply.
#[rustler::nif]
fn question_take<'a>(env: Env<'a>, question: Ref<QuestionRef>) -> Term<'a> {
    match question.0.take(env) {
        Some(asked) => asked,
        None => atoms::given_up().encode(env),
    }
}

#[rustler::nif]
fn question_answer<'a>(env: Env<'a>, question: Ref<QuestionRef>, value: Term<'a>) -> Term<'a> {
    if question.0.is_wanted() {
        question.0.answer(Answer::Value(Terms::copy(value)));
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
        let terms = Terms::copy((reason, stacktrace));
        question.0.answer(Answer::Raised(class, terms));
    }
    atoms::ok().encode(env)
}
