//! The Erlang process that keeps a loop: it arms the epoll set, holds the loop's one timer, and
//! hears of both.
//!
//! The loop's state is in the loop, not in the process: when a keeper dies the loop takes back
//! what it had asked for, and the next keeper is asked again.

use rustler::LocalPid;

use crate::beam::message::Sender;
use crate::beam::resource::{Monitor, Ref};

use super::PollSet;

/// What the death of the keeper means to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A `py_event_router`: it serves many loops and is restarted. The loop goes on.
    Router,
    /// A process in `poll_events/2` of a loop nobody else keeps, while it waits. Any other keeper
    /// may replace it.
    Waiter,
    /// The loop's own `py_event_worker`: it owns the loop. The loop stops.
    Worker,
}

pub struct Keeper {
    pub pid: LocalPid,
    pub role: Role,
    monitor: Monitor,
}

impl Keeper {
    /// `None` when `pid` is not alive.
    pub fn new(
        sender: Sender<'_>,
        poll_set: &Ref<PollSet>,
        pid: LocalPid,
        role: Role,
    ) -> Option<Self> {
        let monitor = poll_set.monitor(sender, &pid)?;
        Some(Keeper { pid, role, monitor })
    }

    pub fn dismiss(self, sender: Sender<'_>, poll_set: &Ref<PollSet>) {
        poll_set.demonitor(sender, &self.monitor);
    }
}
