//! The process `py_questions`, which has each question run by a process of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustler::LocalPid;

use super::{Question, QuestionRef};
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::own_env::OwnTerm;
use crate::beam::resource::Ref;

static SERVER: Mutex<Option<LocalPid>> = Mutex::new(None);

fn server() -> MutexGuard<'static, Option<LocalPid>> {
    // Only ever replaced as a whole.
    SERVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `pid` receives questions from now on.
pub fn started(pid: LocalPid) {
    *server() = Some(pid);
}

/// Sends a question, to run `call`. Returns `false` if the application is not running.
pub fn ask(question: &Arc<Question>, call: OwnTerm) -> bool {
    let pid = *server();
    pid.is_some_and(|pid| ask_process(&pid, question, call))
}

/// Sends a question to be run by this very process.
pub fn ask_process(pid: &LocalPid, question: &Arc<Question>, call: OwnTerm) -> bool {
    // Our own reference to the term goes with the message.
    let term = Ref::new(QuestionRef(question.clone()));
    let (env, call) = call.into_parts();
    let message = env.keep((atoms::py_question(), term, env.load(call)));
    env.send(pid, message)
}

/// Sends a call that gets no reply. Returns `false` if the application is not running.
pub fn cast(call: OwnTerm) -> bool {
    let pid = *server();
    let (env, call) = call.into_parts();
    let message = env.keep((atoms::py_cast(), env.load(call)));
    pid.is_some_and(|pid| env.send(&pid, message))
}

/// No caller waits for the reply: the process that runs the question is stopped.
pub fn abandon(question: &Arc<Question>) {
    let Some(runs) = question.abandon() else {
        return;
    };
    let pid = *server();
    if let Some(pid) = pid {
        // Without a server the process runs to its end.
        let _ = message::send(Sender::Thread, &pid, (atoms::abandoned(), runs));
    }
}
