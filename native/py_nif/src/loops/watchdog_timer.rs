//! What wakes `py_watchdog`: one timerfd for the node, which the VM watches for it. To set it and
//! to clear it is a system call each, and wakes no thread.

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use event_loop::sys::timerfd::TimerFd;
use event_loop::{Alarm, now_ns};
use rustler::{Env, LocalPid};

use super::watchdog;
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::beam::select;

/// The object in `{select, Object, undefined, ready_input}` to `py_watchdog`. Made once, and kept
/// as long as the node runs: each `py_watchdog` takes it over, so the VM's poller never has to let
/// go of it.
///
/// What it has besides is changed by that process before it sleeps, and read by loops that found
/// it asleep. Relaxed: the lock of the `Vigil` is between the two.
#[derive(Default)]
pub struct WatchdogTimer {
    /// None: the operating system has not given us a descriptor yet.
    timer: OnceLock<TimerFd>,
    /// Whether it wakes anybody.
    is_watched: AtomicBool,
    /// How long a loop may be up (ns).
    patience: AtomicU64,
}

impl WatchdogTimer {
    /// Has the VM watch it for `pid`, which looks `patience` (ns) after it was set. Scheduler
    /// threads only. Once more for the same process does no harm: what counts is the last time.
    pub fn wakes(object: &Ref<Self>, env: Env<'_>, pid: &LocalPid, patience: u64) {
        object.patience.store(patience, Ordering::Relaxed);
        let is_watched = object
            .descriptor()
            .is_some_and(|fd| select::arm(env, fd, object, pid));
        object.is_watched.store(is_watched, Ordering::Relaxed);
    }

    fn descriptor(&self) -> Option<RawFd> {
        if self.timer.get().is_none() {
            // Of two that are made at once, which nobody does, one is closed again.
            let _ = TimerFd::new().map(|timer| self.timer.set(timer));
        }
        self.timer.get().map(TimerFd::raw_fd)
    }
}

impl Alarm for WatchdogTimer {
    fn set(&self) -> bool {
        let when = now_ns().saturating_add(self.patience.load(Ordering::Relaxed));
        self.is_watched.load(Ordering::Relaxed)
            && self
                .timer
                .get()
                .is_some_and(|timer| timer.set(Some(when)).is_ok())
    }

    fn clear(&self) {
        // A timer that cannot be cleared makes the watchdog look in vain.
        let _ = self.timer.get().map(|timer| timer.set(None));
    }
}

impl Resource for WatchdogTimer {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.watchdog_timer";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, _env: Env<'_>, pid: LocalPid) {
        watchdog::process_died(&pid);
    }
}
