//! What one call thread is doing: its pool, the watcher, interrupts and reports read it.

use std::cell::OnceCell;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::interrupts::Interrupts;
use crate::beam::resource::Ref;
use crate::cpython::sampling::PythonThread;
use crate::requests::request::Request;

pub struct CallThread {
    /// Python's number for the thread.
    pub number: u64,
    pub thread: PythonThread,
    pub interrupts: Interrupts,
    /// The lock is free, except while the watcher or a report reads it.
    activity: Mutex<Activity>,
}

struct Activity {
    /// The request that it runs.
    request: Option<Ref<Request>>,
    pace: Pace,
    /// Wakes the thread while it is outside.
    wake: Option<Wake>,
}

/// Ends a wait for Erlang early.
pub type Wake = Box<dyn Fn() + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// It can be expected to take the next call.
    Ready,
    /// Its call has kept others waiting.
    Slow,
    /// It waits for Erlang, and does not count.
    Outside,
}

thread_local! {
    static THIS: OnceCell<Arc<CallThread>> = const { OnceCell::new() };
}

/// Calls `body` with the call thread that the calling thread is, if it is one.
pub fn with_this<R>(body: impl FnOnce(Option<&CallThread>) -> R) -> R {
    // While the thread ends it is none any more.
    let mut body = Some(body);
    let result = THIS.try_with(|this| body.take().map(|body| body(this.get().map(Arc::as_ref))));
    match (result, body) {
        (Ok(Some(result)), _) => result,
        (_, Some(body)) => body(None),
        (_, None) => unreachable!("it was called"),
    }
}

impl CallThread {
    /// The calling thread becomes a call thread, for life.
    pub fn begin(thread: PythonThread) -> Arc<Self> {
        THIS.with(|this| {
            this.get_or_init(|| Arc::new(CallThread::new(thread)))
                .clone()
        })
    }

    fn new(thread: PythonThread) -> Self {
        CallThread {
            number: thread.number,
            thread,
            interrupts: Interrupts::default(),
            activity: Mutex::new(Activity {
                request: None,
                pace: Pace::Ready,
                wake: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Activity> {
        // Single assignments: consistent also after a panic.
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub fn go_outside(&self, wake: Wake) -> bool {
        let mut activity = self.lock();
        activity.wake = Some(wake);
        mem::replace(&mut activity.pace, Pace::Outside) == Pace::Ready
    }

    pub fn come_back(&self) {
        let mut activity = self.lock();
        activity.pace = Pace::Ready;
        let wake = activity.wake.take();
        drop(activity);
        drop(wake);
    }

    /// If it waits for Erlang, it wakes, and checks whether its call was interrupted.
    pub fn wake(&self) {
        if let Some(wake) = &self.lock().wake {
            wake();
        }
    }

    pub fn request(&self) -> Option<Ref<Request>> {
        self.lock().request.clone()
    }

    /// Whether it waits for Erlang.
    pub fn is_outside(&self) -> bool {
        self.lock().pace == Pace::Outside
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
