//! The arguments of a loop that Erlang starts (`py_event_loop:start_link/1`), and the default loop,
//! on which coroutines of `py:call` run.
//!
//! The process that owns the native loop creates it, before a thread is assigned to it (`runners`):
//! that process may die at any time afterwards, and the loop is notified.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustler::{Encoder, LocalPid};

use crate::asyncio::loop_class::given::TakeRequests;
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::loops::NativeLoop;
use crate::loops::Origin;

/// The process to notify: `{py_loop, Token, ready | {failed, Error} | {ended, Left}}`.
#[derive(Clone, Copy)]
pub struct Owner {
    pub pid: LocalPid,
    pub token: i64,
}

impl Owner {
    pub fn tell(self, news: impl Encoder) {
        // If the owner has died, the loop's monitor reports it.
        let _ = message::send(
            Sender::Thread,
            &self.pid,
            (atoms::py_loop(), self.token, news),
        );
    }
}

pub struct Start {
    pub owner: Owner,
    /// The owner as origin: what the loop itself prints goes to its group leader.
    pub origin: Arc<Origin>,
    pub name: String,
    /// Python code to run before the loop takes requests.
    pub init: String,
    /// Seconds that tasks have to end when the loop ends.
    pub patience: f64,
    /// It requires a thread of its own.
    pub own: bool,
    pub take_requests: TakeRequests,
    /// The owner waits for `ready`.
    pub announce: bool,
}

// ---- the loop for coroutines of `py:call` ----

static DEFAULT: Mutex<Weak<NativeLoop>> = Mutex::new(Weak::new());
/// How often it was set; changed under the lock.
static SET: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The value that this thread has seen, and the count at that time: every request reads it, and
    /// all schedulers would contend for one lock.
    static SEEN: RefCell<(u64, Weak<NativeLoop>)> = const { RefCell::new((0, Weak::new())) };
}

fn default() -> MutexGuard<'static, Weak<NativeLoop>> {
    // Only ever replaced as a whole.
    DEFAULT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub fn set_default_loop(native: &Arc<NativeLoop>) {
    replace_default(Arc::downgrade(native));
}

/// The application stops. The former default loop may live on for a while.
pub fn forget_default_loop() {
    replace_default(Weak::new());
}

fn replace_default(with: Weak<NativeLoop>) {
    let mut default = default();
    *default = with;
    // Release: a thread that sees it finds the new one behind the lock.
    SET.fetch_add(1, Ordering::Release);
}

pub fn default_loop() -> Option<Arc<NativeLoop>> {
    let found = with_default(Weak::upgrade);
    found.filter(|native| native.requests.is_open())
}

/// Whether there is one, open or not: called for each request, where all schedulers at once would
/// change a count of references to it.
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
