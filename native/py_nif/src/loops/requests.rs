//! The requests of a loop that Erlang started, as far as the loop itself deals with them.
//! `requests/on_loop/loop_requests.rs` has them.

use std::any::Any;

use super::NativeLoop;
use crate::beam::message::Sender;

pub trait Requests: Any + Send + Sync {
    /// The loop's cheap check: whether there is a message, or a reason to stop that it has not seen
    /// yet.
    fn any(&self, native: &NativeLoop) -> bool;

    /// Whether the loop accepts requests.
    fn is_open(&self) -> bool;

    /// The loop is about to sleep: monitors the callers of requests that wait for something.
    fn monitor_callers(&self);

    /// For a loop that never sleeps.
    fn monitor_callers_if_due(&self, now: u64);

    /// The loop has ended: waiting callers get a reply at once.
    fn end(&self, sender: Sender<'_>);
}
