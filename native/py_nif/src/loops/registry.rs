//! All loops of the node, which of them is the default loop, and the router that keeps loops without
//! another keeper.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};

use rustc_hash::FxHashMap;
use rustler::{Env, LocalPid};

use super::{NativeLoop, PollSet, Role};
use crate::beam::forked;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;

#[derive(Default)]
struct Registry {
    loops: FxHashMap<u64, Weak<NativeLoop>>,
    /// Loops started by an Erlang process, which identifies the loop in the API.
    owned: FxHashMap<LocalPid, u64>,
    /// The loop that coroutines of `py:call` run on.
    default_loop: Weak<NativeLoop>,
    default_router: Option<LocalPid>,
    /// Loops that a Python thread closed, by their id: a process has to remove them from the VM's
    /// poller. It was sent a message, but may die before it receives that; the next router looks
    /// here.
    unreleased: FxHashMap<u64, Ref<PollSet>>,
}

impl Registry {
    fn owned_by(&self, pid: &LocalPid) -> Option<Arc<NativeLoop>> {
        let id = self.owned.get(pid)?;
        self.loops.get(id).and_then(Weak::upgrade)
    }
}

fn lock() -> MutexGuard<'static, Registry> {
    static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
    // A panic while it was locked leaves the registry consistent: every use is one simple change.
    REGISTRY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A number that no other loop of this node has or had.
pub fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only uniqueness matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

// In a forked copy of the node this has no other users, and the lock may be held by a thread that
// does not exist there.

pub fn insert(native: &Arc<NativeLoop>) {
    if forked::is_copy() {
        return;
    }
    lock().loops.insert(native.id, Arc::downgrade(native));
}

pub fn remove(native: &NativeLoop) {
    if forked::is_copy() {
        return;
    }
    let mut registry = lock();
    registry.loops.remove(&native.id);
    if let Some(owner) = &native.owner {
        registry.owned.remove(owner);
    }
}

/// Registers `native` under its owner.
pub fn insert_owned(native: &NativeLoop) {
    if let Some(owner) = native.owner {
        lock().owned.insert(owner, native.id);
    }
}

pub fn owned_by(pid: &LocalPid) -> Option<Arc<NativeLoop>> {
    lock().owned_by(pid)
}

/// The loops of several owners, under one lock; `None` if one of them has none.
pub fn owned_by_each(pids: &[LocalPid]) -> Option<Vec<Arc<NativeLoop>>> {
    // Filled before the lock is released, dropped after it: the last reference may free a loop.
    let mut found = Vec::with_capacity(pids.len());
    let registry = lock();
    for pid in pids {
        found.push(registry.owned_by(pid));
    }
    drop(registry);
    found.into_iter().collect()
}

/// The processes that own a loop.
pub fn owners() -> Vec<LocalPid> {
    lock().owned.keys().copied().collect()
}

pub fn get(id: u64) -> Option<Arc<NativeLoop>> {
    lock().loops.get(&id).and_then(Weak::upgrade)
}

/// Every live loop, in the order of their creation.
pub fn all() -> Vec<Arc<NativeLoop>> {
    let mut loops: Vec<_> = lock().loops.values().filter_map(Weak::upgrade).collect();
    loops.sort_unstable_by_key(|native| native.id);
    loops
}

// ---- the default loop ----

/// How often it was set; changed under the lock.
static DEFAULT_SET: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The default loop that this thread has seen, and the count at that time: every request reads
    /// it, and all schedulers would contend for one lock.
    static SEEN: RefCell<(u64, Weak<NativeLoop>)> = const { RefCell::new((0, Weak::new())) };
}

pub fn set_default_loop(native: &Arc<NativeLoop>) {
    replace_default_loop(Arc::downgrade(native));
}

/// The application stops. The former default loop may live on for a while.
pub fn forget_default_loop() {
    replace_default_loop(Weak::new());
}

fn replace_default_loop(with: Weak<NativeLoop>) {
    let mut registry = lock();
    registry.default_loop = with;
    // Release: a thread that sees it finds the new one behind the lock.
    DEFAULT_SET.fetch_add(1, Ordering::Release);
}

/// The default loop, if it accepts requests.
pub fn default_loop() -> Option<Arc<NativeLoop>> {
    let found = with_default_loop(Weak::upgrade);
    found.filter(|native| {
        native
            .requests
            .as_ref()
            .is_some_and(|requests| requests.is_open())
    })
}

/// Whether there is one, open or not: called for each request, where all schedulers at once would
/// change a count of references to it.
pub fn has_default_loop() -> bool {
    with_default_loop(|default| default.strong_count() > 0)
}

fn with_default_loop<R>(look: impl FnOnce(&Weak<NativeLoop>) -> R) -> R {
    SEEN.with_borrow_mut(|(times, seen)| {
        if *times != DEFAULT_SET.load(Ordering::Acquire) {
            let registry = lock();
            (*times, *seen) = (
                DEFAULT_SET.load(Ordering::Relaxed),
                registry.default_loop.clone(),
            );
        }
        look(seen)
    })
}

// ---- the default router ----

pub fn default_router() -> Option<LocalPid> {
    if forked::is_copy() {
        return None;
    }
    lock().default_router
}

/// `pid` is the node's router from now on: it takes every loop that has no keeper (all those of its
/// predecessor), and the loops closed while there was none.
pub fn set_default_router(env: Env<'_>, pid: LocalPid) {
    let unreleased = {
        let mut registry = lock();
        registry.default_router = Some(pid);
        std::mem::take(&mut registry.unreleased)
    };
    for poll_set in unreleased.into_values() {
        if let Some(native) = poll_set.native() {
            native.release(env, &poll_set);
        }
    }
    for native in all() {
        // If the loop is closed meanwhile, or the router dies, nothing is lost: the next router
        // takes over.
        let _ = native.adopt(Sender::Scheduler(env), pid, Role::Router, false);
    }
}

pub fn forget_default_router(pid: &LocalPid) {
    let mut registry = lock();
    if registry.default_router.as_ref() == Some(pid) {
        registry.default_router = None;
    }
}

/// Records that a router must remove `poll_set` from the VM's poller, until [`released`].
pub fn to_be_released(id: u64, poll_set: Ref<PollSet>) {
    if forked::is_copy() {
        return;
    }
    lock().unreleased.insert(id, poll_set);
}

pub fn released(id: u64) {
    let poll_set = lock().unreleased.remove(&id);
    // Outside of the lock: the last reference may free the loop.
    drop(poll_set);
}
