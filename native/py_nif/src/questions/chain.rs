//! Who waits for whom: Python asks Erlang, Erlang asks Python, and so on.
//!
//! A loop whose thread waits in `erlang.call` runs nothing meanwhile. If what it waits for asks
//! that very loop, both would wait for ever; so such a request is refused. The way from one to
//! the other is followed through the processes that answer questions and through call threads;
//! it is lost where another process asks on behalf of one of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustler::LocalPid;

use super::Question;

/// What waits for a question's answer.
#[derive(Default)]
pub struct Chain {
    /// The loop whose thread asked, if it waits.
    pub blocks: Option<u64>,
    /// The question that Python code answers by asking this one.
    pub above: Option<Arc<Question>>,
}

impl Chain {
    fn matters(&self) -> bool {
        self.blocks.is_some() || self.above.is_some()
    }
}

type Running = HashMap<LocalPid, Arc<Question>>;

/// The questions that matter here, by the process that answers.
static RUNNING: LazyLock<Mutex<Running>> = LazyLock::new(Mutex::default);
/// How many there are: nearly always none. Relaxed: whoever asks on behalf of one was started
/// after it was counted.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn running() -> MutexGuard<'static, Running> {
    // Single insertions and removals.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn begun(pid: LocalPid, question: &Arc<Question>) {
    if question.chain.matters() {
        let mut running = running();
        running.insert(pid, question.clone());
        COUNT.store(running.len(), Ordering::Relaxed);
    }
}

pub fn ended(pid: &LocalPid, question: &Question) {
    if question.chain.matters() {
        let mut running = running();
        let gone = running.remove(pid);
        COUNT.store(running.len(), Ordering::Relaxed);
        drop(running);
        drop(gone);
    }
}

/// The question that this process answers.
pub fn answered_by(pid: &LocalPid) -> Option<Arc<Question>> {
    match COUNT.load(Ordering::Relaxed) {
        0 => None,
        _ => running().get(pid).cloned(),
    }
}

/// Whether this loop waits for the answer, however far up.
pub fn blocks(question: Option<&Arc<Question>>, loop_id: u64) -> bool {
    let mut next = question;
    while let Some(question) = next {
        if question.chain.blocks == Some(loop_id) {
            return true;
        }
        next = question.chain.above.as_ref();
    }
    false
}

thread_local! {
    /// The question on behalf of which this thread runs Python code.
    static CURRENT: RefCell<Option<Arc<Question>>> = const { RefCell::new(None) };
}

pub fn current() -> Option<Arc<Question>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Runs `code` on behalf of this question.
pub fn within<R>(question: Option<Arc<Question>>, code: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(question);
    let result = code();
    CURRENT.set(before);
    result
}
