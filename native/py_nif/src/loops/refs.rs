//! The terms that Erlang holds. Each is a resource; dropping the last reference frees what it owns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use event_loop::{Cancel, Direction, WatchId};
use rustler::{Env, LocalPid};

use super::NativeLoop;
use crate::beam::fd::FileId;
use crate::beam::message::Sender;
use crate::beam::resource::{Resource, TypeCell};
use crate::error::{Error, Result};

/// The result of `event_loop_new/0`. When it is garbage-collected, the loop is closed.
///
/// It does not own the loop: closing releases the fds even while terms of this exist.
pub struct LoopRef {
    native: Weak<NativeLoop>,
}

impl LoopRef {
    /// A reference to `native`, which the reference does not keep alive.
    pub fn to(native: &Arc<NativeLoop>) -> Self {
        LoopRef {
            native: Arc::downgrade(native),
        }
    }

    /// The loop, unless it is closed.
    pub fn open(&self) -> Result<Arc<NativeLoop>> {
        let native = self.native.upgrade().ok_or(Error::Closed)?;
        native.check_open()?;
        Ok(native)
    }
}

impl Resource for LoopRef {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.loop";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn destroy(self, sender: Sender<'_>) {
        // A loop that a process started ends with that process, and in an orderly way.
        if let Some(native) = self
            .native
            .upgrade()
            .filter(|native| native.assignment.is_none())
        {
            native.close(sender);
        }
    }
}

/// The loop's epoll set as the VM's poller knows it: the object in `{select, Object, ...}`.
///
/// It is not the `LoopRef`, because the VM keeps a selected object alive: an armed loop would never
/// be collected. It owns the loop until the VM's poller has released the epoll fd. That fd is
/// closed when every other owner is gone, too: so never while the VM polls it, and even if a term
/// of this stays in a keeper's heap for long.
pub struct PollSet(Mutex<Option<Arc<NativeLoop>>>);

impl PollSet {
    pub fn new(native: Arc<NativeLoop>) -> Self {
        PollSet(Mutex::new(Some(native)))
    }

    /// The loop, unless it has been released.
    pub fn native(&self) -> Option<Arc<NativeLoop>> {
        self.slot().clone()
    }

    /// The VM's poller does not have the epoll fd, and never will.
    pub fn release_loop(&self) {
        let native = self.slot().take();
        // Outside of the lock: the last owner closes the fds.
        drop(native);
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<NativeLoop>>> {
        // Only ever replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resource for PollSet {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.poll_set";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, env: Env<'_>, pid: LocalPid) {
        if let Some(native) = self.native() {
            native.keeper_died(env, &pid);
        }
    }
    fn stopped(&self) {
        self.release_loop();
    }
}

/// One direction of a watched fd: the result of `add_reader/3` and `add_writer/3`.
///
/// The watch belongs to the loop: it ends with `remove_reader/2`, `close_fd/1` or the loop, not
/// when this reference is collected.
pub struct FdRef {
    pub owner: Weak<NativeLoop>,
    pub watch: WatchId,
    pub direction: Direction,
    /// The file behind the number when it was watched.
    pub file: Option<FileId>,
    /// Set when its own `remove_*` call removed this reference's watch: the caller may still close
    /// the fd with `close_fd`.
    pub removed: AtomicBool,
    pub closed: AtomicBool,
}

impl Resource for FdRef {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.fd";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}

/// A timer of a loop without Python.
pub struct Timer {
    pub callback: u64,
    pub cancelled: AtomicBool,
}

impl Cancel for Timer {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// The result of `call_later/3`.
pub struct TimerRef {
    pub owner: Weak<NativeLoop>,
    pub timer: Arc<Timer>,
}

impl Resource for TimerRef {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.timer";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}
