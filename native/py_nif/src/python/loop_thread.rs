//! What a loop that Erlang starts (`py_event_loop:start_link/1`) begins with, and the loop that
//! coroutines of `py:call` run on.
//!
//! The native loop is made by the process that owns it, before a thread is found for it
//! (`runners`): that process may die at any time after, and the loop then knows.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustler::{Encoder, LocalPid};

use super::load::Load;
use crate::atoms;
use crate::beam::message::{self, Sender};
use crate::loops::NativeLoop;
use crate::output::Origin;

/// What the next `_native.Loop` made on this thread takes instead of a new native loop.
pub struct Given {
    pub native: Arc<NativeLoop>,
    /// Of the runner.
    pub load: Arc<Load>,
    pub origin: Arc<Origin>,
}

thread_local! {
    static GIVEN: RefCell<Option<Given>> = const { RefCell::new(None) };
}

pub fn give(given: Given) {
    GIVEN.set(Some(given));
}

pub fn take_given() -> Option<Given> {
    GIVEN.take()
}

/// Whom the thread tells how it goes: `{py_loop, Token, ready | {failed, Error} | {ended, Left}}`.
#[derive(Clone, Copy)]
pub struct Owner {
    pub pid: LocalPid,
    pub token: i64,
}

impl Owner {
    pub fn tell(self, news: impl Encoder) {
        // An owner that died: the loop hears of that by its monitor.
        let _ = message::send(
            Sender::Thread,
            &self.pid,
            (atoms::py_loop(), self.token, news),
        );
    }
}

pub struct Start {
    pub owner: Owner,
    /// The owner again: what the loop prints of its own accord goes to its group leader.
    pub origin: Arc<Origin>,
    pub name: String,
    /// Python code to run before the loop takes requests.
    pub init: String,
    /// Seconds that tasks have to end, when the loop has to.
    pub patience: f64,
    /// It wants a thread of its own.
    pub own: bool,
    /// The owner waits for `ready`.
    pub announce: bool,
}

// ---- the loop for coroutines of `py:call` ----

static DEFAULT: Mutex<Weak<NativeLoop>> = Mutex::new(Weak::new());
/// How often it was set; changed under the lock.
static SET: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What this thread has seen, after so many times: every request asks, and a lock would be one
    /// place for all schedulers to meet.
    static SEEN: RefCell<(u64, Weak<NativeLoop>)> = const { RefCell::new((0, Weak::new())) };
}

fn default() -> MutexGuard<'static, Weak<NativeLoop>> {
    // Only ever replaced whole.
    DEFAULT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub fn set_default_loop(native: &Arc<NativeLoop>) {
    let mut default = default();
    *default = Arc::downgrade(native);
    // Release: whoever sees it finds the new one behind the lock.
    SET.fetch_add(1, Ordering::Release);
}

pub fn default_loop() -> Option<Arc<NativeLoop>> {
    let found = with_default(Weak::upgrade);
    found.filter(|native| native.requests.is_open())
}

/// Whether there is one, open or not: asked for each call, where a count of references to it would
/// be changed by all schedulers at once.
pub fn has_default_loop() -> bool {
    with_default(|default| default.strong_count() > 0)
}

fn with_default<R>(look: impl FnOnce(&Weak<NativeLoop>) -> R) -> R {
    SEEN.with_borrow_mut(|(times, seen)| {
        if *times != SET.load(Ordering::Acquire) {
            let default = default();
            (*times, *seen) = (SET.load(Ordering::Relaxed), default.clone());
        }
        look(seen)
    })
}
