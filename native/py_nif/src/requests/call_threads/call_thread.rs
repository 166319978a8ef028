//! What one call thread is doing: its pool, the watcher and reports read it.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::beam::resource::Ref;
use crate::requests::request::Request;

pub struct CallThread {
    /// Python's number for the thread.
    pub number: u64,
    /// The lock is free, except while the watcher or a report reads it.
    activity: Mutex<Activity>,
}

struct Activity {
    /// The request that it runs.
    request: Option<Ref<Request>>,
    pace: Pace,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// It can be expected to take the next call.
    Ready,
    /// Its call has kept others waiting.
    Slow,
    /// It waits for Erlang, and does not count.
    Outside,
}

impl CallThread {
    pub fn new(number: u64) -> Self {
        CallThread {
            number,
            activity: Mutex::new(Activity {
                request: None,
                pace: Pace::Ready,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Activity> {
        // Single assignments: consistent also after a panic.
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_pace(&self, pace: Pace) -> Pace {
        mem::replace(&mut self.lock().pace, pace)
    }

    /// From now on it runs this request. Returns whether the one before was slow.
    pub fn switch_to(&self, request: Option<Ref<Request>>) -> bool {
        let mut activity = self.lock();
        let before = mem::replace(&mut activity.request, request);
        let was_slow = mem::replace(&mut activity.pace, Pace::Ready) == Pace::Slow;
        drop(activity);
        drop(before);
        was_slow
    }

    /// Returns whether it was ready and ran a call.
    pub fn mark_slow(&self) -> bool {
        let mut activity = self.lock();
        let marks = activity.request.is_some() && activity.pace == Pace::Ready;
        if marks {
            activity.pace = Pace::Slow;
        }
        marks
    }

    /// Returns whether it was ready.
    pub fn go_outside(&self) -> bool {
        self.set_pace(Pace::Outside) == Pace::Ready
    }

    pub fn come_back(&self) {
        self.set_pace(Pace::Ready);
    }

    pub fn runs(&self) -> bool {
        self.lock().request.is_some()
    }

    /// The request that it runs, unless it is outside.
    pub fn occupied_by(&self) -> Option<Ref<Request>> {
        let activity = self.lock();
        match activity.pace {
            Pace::Outside => None,
            Pace::Ready | Pace::Slow => activity.request.clone(),
        }
    }
}
