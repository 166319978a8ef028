//! Who waits for whom: Python asks Erlang, Erlang asks Python, and so on.
//!
//! A thread that waits in `erlang.call` runs none of its loops meanwhile. If what it waits for asks
//! one of them, both would wait for ever; so such a request is refused. The way from one to the
//! other is followed through the processes that answer questions and through call threads; it is
//! lost where another process asks on behalf of one of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use rustler::LocalPid;

use super::Question;
use crate::loops::NativeLoop;

/// Names a thread that runs loops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoopThread(NonZeroU64);

impl LoopThread {
    pub fn this() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            // Relaxed: only uniqueness matters.
            static NAME: LoopThread = LoopThread(
                NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).expect("it counts from 1"),
            );
        }
        NAME.with(|name| *name)
    }
}

/// What waits for a question's answer.
#[derive(Default)]
pub struct Chain {
    /// The thread that waits, if it runs loops.
    pub blocks: Option<LoopThread>,
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

/// Whether the thread of this loop waits for the answer, however far up.
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
