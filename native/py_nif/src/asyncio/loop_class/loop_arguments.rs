//! The arguments of a loop that Erlang started: its runner stores them here for the thread's next
//! `_native.Loop`.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;

use super::class::Loop;
use crate::loops::busy_share::BusyShare;
use crate::loops::{NativeLoop, Origin};

/// Takes the requests of a loop that have arrived since its last turn.
pub type TakeRequests = fn(&Bound<'_, Loop>) -> PyResult<()>;

/// What the next `_native.Loop` created on this thread uses instead of a new native loop.
pub struct LoopArguments {
    pub native: Arc<NativeLoop>,
    /// The runner's.
    pub busy: Arc<BusyShare>,
    pub origin: Arc<Origin>,
    /// Called in each turn of the loop.
    pub take_requests: TakeRequests,
}

thread_local! {
    static NEXT: RefCell<Option<LoopArguments>> = const { RefCell::new(None) };
}

pub fn store(arguments: LoopArguments) {
    NEXT.set(Some(arguments));
}

pub fn take() -> Option<LoopArguments> {
    NEXT.take()
}
