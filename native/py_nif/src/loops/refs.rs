//! The terms Erlang holds. Each is a resource; dropping the last reference frees what it owns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use event_loop::{Cancel, Direction, WatchId};
use rustler::{Env, LocalPid};

use super::NativeLoop;
use crate::beam::message::Sender;
use crate::beam::resource::{Resource, TypeCell};

/// What `event_loop_new/0` answers. When it is garbage-collected the loop is closed.
pub struct LoopRef(pub Arc<NativeLoop>);

impl Resource for LoopRef {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.loop";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn destroy(self, sender: Sender<'_>) {
        self.0.close(sender);
    }
}

/// The loop's epoll set as the VM's poller knows it: the object in `{select, Object, ...}`.
///
/// It is not the `LoopRef`, because the VM keeps a selected object alive: an armed loop would
/// never be collected. The epoll fd is closed when this and every other owner of the loop are
/// gone, so never while the VM polls it.
pub struct PollSet(pub Arc<NativeLoop>);

impl Resource for PollSet {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.poll_set";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, env: Env<'_>, pid: LocalPid) {
        self.0.keeper_died(env, &pid);
    }
}

/// One direction of a watched fd, as `add_reader/3` and `add_writer/3` answer it.
///
/// The watch belongs to the loop: it ends with `remove_reader/2`, `close_fd/1` or the loop, not
/// when this reference is collected.
pub struct FdRef {
    pub owner: Weak<NativeLoop>,
    pub watch: WatchId,
    pub direction: Direction,
    /// Set when this reference's watch was removed by its own `remove_*` call: the fd is then
    /// still the caller's to close with `close_fd`.
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

/// What `call_later/3` answers.
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
