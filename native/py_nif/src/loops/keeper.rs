//! The Erlang process that keeps a loop: it arms the epoll set, holds the loop's one timer, and
//! receives the messages of both.
//!
//! The loop's state is in the loop, not in the process: when a keeper dies, the loop discards its
//! requests to that keeper and sends them to the next one.

use rustler::LocalPid;

use crate::beam::message::Sender;
use crate::beam::resource::{Monitor, Ref};

use super::PollSet;

/// What the death of the keeper means for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A `py_event_router`: it serves many loops and is restarted. The loop goes on.
    Router,
    /// A process in `poll_events/2` that keeps a loop without another keeper while it waits. Any
    /// other keeper may replace it.
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
