//! The arguments of a loop that Erlang starts (`py_event_loop:start_link/1`).
//!
//! The process that owns the native loop creates it, before a thread is assigned to it (`runners`):
//! that process may die at any time afterwards, and the loop is notified.

use std::sync::Arc;

use rustler::{Encoder, LocalPid};

use crate::asyncio::loop_class::loop_arguments::TakeRequests;
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::loops::Origin;

/// The process to notify: `{py_loop, Token, ready | {failed, Error} | {ended, Left}}`.
#[derive(Clone, Copy)]
pub struct Owner {
    pub pid: LocalPid,
    pub token: i64,
}

impl Owner {
    pub fn notify(self, news: impl Encoder) {
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
