//! The process `py_questions`, which has questions answered: each by a process of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustler::LocalPid;

use super::{Question, QuestionRef};
use crate::atoms;
use crate::beam::message::{self, Sender};
use crate::beam::resource::Ref;

static SERVER: Mutex<Option<LocalPid>> = Mutex::new(None);

fn server() -> MutexGuard<'static, Option<LocalPid>> {
    // Only ever replaced whole.
    SERVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `pid` is asked from now on.
pub fn started(pid: LocalPid) {
    *server() = Some(pid);
}

/// Has a question answered. `false`: there is nobody to ask, the application is not running.
pub fn ask(question: &Arc<Question>) -> bool {
    let pid = *server();
    pid.is_some_and(|pid| ask_process(&pid, question))
}

/// Has this very process answer it.
pub fn ask_process(pid: &LocalPid, question: &Arc<Question>) -> bool {
    // Our own reference to the term goes with the message.
    let term = Ref::new(QuestionRef(question.clone()));
    message::send(Sender::Thread, pid, (atoms::py_question(), term))
}

/// Nobody wants the answer: whoever works on it is stopped.
pub fn give_up(question: &Arc<Question>) {
    let Some(runs) = question.give_up() else {
        return;
    };
    let pid = *server();
    if let Some(pid) = pid {
        // Without a server the work goes on to its end.
        let _ = message::send(Sender::Thread, &pid, (atoms::given_up(), runs));
    }
}
