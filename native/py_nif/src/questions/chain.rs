//! Which call waits for which: Python asks Erlang, Erlang asks Python, and so on.
//!
//! A thread that waits in `erlang.call` runs none of its loops meanwhile. If the called function
//! asks one of these loops, both would wait forever; so such a request is refused. The chain from
//! one to the other passes through the processes that run questions and through call threads; it is
//! lost where another process makes a request on behalf of one of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustler::LocalPid;

use super::Question;
use crate::loops::{LoopThread, NativeLoop};

/// What waits for a question's reply.
#[derive(Default)]
pub struct Chain {
    /// The thread that waits, if it runs loops.
    pub blocks: Option<LoopThread>,
    /// The question that the Python code was working on when it asked this one.
    pub above: Option<Arc<Question>>,
}

impl Chain {
    fn matters(&self) -> bool {
        self.blocks.is_some() || self.above.is_some()
    }
}

type Running = HashMap<LocalPid, Arc<Question>>;

/// The questions that matter here, by the process that runs them.
static RUNNING: LazyLock<Mutex<Running>> = LazyLock::new(Mutex::default);
/// How many there are: nearly always none. Relaxed: code that asks on behalf of one was started
/// after it was counted.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn running() -> MutexGuard<'static, Running> {
    // Single insertions and removals: consistent also after a panic.
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

/// The question that this process runs.
pub fn question_of(pid: &LocalPid) -> Option<Arc<Question>> {
    match COUNT.load(Ordering::Relaxed) {
        0 => None,
        _ => running().get(pid).cloned(),
    }
}

/// Whether the thread of this loop waits for the reply, anywhere up the chain.
pub fn blocks(question: Option<&Arc<Question>>, native: &NativeLoop) -> bool {
    let mut next = question;
    while let Some(question) = next {
        if question.chain.blocks.is_some() && question.chain.blocks.as_ref() == native.thread.get()
        {
            return true;
        }
        next = question.chain.above.as_ref();
    }
    false
}

thread_local! {
    /// The question on whose behalf this thread runs Python code.
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
