//! Where a loop that Erlang started runs: nowhere yet, or on a runner (`runners/runner.rs`).
//!
//! Such a loop runs only once it has a request. Then it is assigned to a runner, once, and stays
//! there for life: asyncio, sqlite3 and thread-locals rely on that.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use event_loop::WakeRunner;

use super::NativeLoop;

/// A thread that runs loops.
pub trait LoopRunner: Send + Sync {
    /// The loop of this number was woken while it rested.
    fn wake_loop(&self, id: u64);
    /// How many steps the thread has made so far, for any of its loops.
    fn steps(&self) -> u64;
    /// How busy the thread is, in thousandths.
    fn busy(&self, now: u64) -> u64;
}

/// Assigns a loop to a thread.
pub trait ChooseRunner: Send {
    /// Returns the thread that will take the loop, or itself if there is none.
    fn choose(
        self: Box<Self>,
        native: &Arc<NativeLoop>,
    ) -> Result<Arc<dyn LoopRunner>, Box<dyn ChooseRunner>>;
}

enum State {
    Unassigned(Box<dyn ChooseRunner>),
    /// Never to be run, or being assigned at this moment.
    Unavailable,
    /// Sent to a runner.
    Assigned(Arc<dyn LoopRunner>),
    Running(Arc<dyn LoopRunner>),
}

pub struct Assignment {
    id: u64,
    native: OnceLock<Weak<NativeLoop>>,
    state: Mutex<State>,
    /// It is not `Unassigned` any more. Set under the lock of `state`, for a check that is nearly always
    /// sufficient.
    is_assigned: AtomicBool,
}

impl Assignment {
    pub fn new(id: u64, choice: Box<dyn ChooseRunner>) -> Self {
        Assignment {
            id,
            native: OnceLock::new(),
            state: Mutex::new(State::Unassigned(choice)),
            is_assigned: AtomicBool::new(false),
        }
    }

    pub(super) fn set_native(&self, native: &Arc<NativeLoop>) {
        // Called once, by the code that created both.
        let _ = self.native.set(Arc::downgrade(native));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Only ever replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns the loop to a thread if it has none. Returns `false` if there is no thread for it
    /// now.
    pub fn ensure_runner(&self) -> bool {
        // Acquire: with the store below; no other data depends on it.
        if self.is_assigned.load(Ordering::Acquire) {
            return true;
        }
        let mut state = self.state();
        let State::Unassigned(_) = &*state else {
            return true;
        };
        let Some(native) = self.native.get().and_then(Weak::upgrade) else {
            return true;
        };
        // The runner takes the loop later, so the lock is free by then.
        match std::mem::replace(&mut *state, State::Unavailable) {
            State::Unassigned(choice) => match choice.choose(&native) {
                Ok(runner) => {
                    *state = State::Assigned(runner);
                    self.is_assigned.store(true, Ordering::Release);
                    true
                }
                Err(choice) => {
                    *state = State::Unassigned(choice);
                    false
                }
            },
            _ => true,
        }
    }

    /// `runner` runs the loop from now on.
    pub fn runs_on(&self, runner: Arc<dyn LoopRunner>) {
        *self.state() = State::Running(runner);
    }

    /// How many steps the loop's thread has made so far, if it has one: a loop waits for its turn
    /// as long as that number grows.
    pub fn steps(&self) -> Option<u64> {
        match &*self.state() {
            State::Assigned(runner) | State::Running(runner) => Some(runner.steps()),
            State::Unassigned(_) | State::Unavailable => None,
        }
    }

    /// How busy the loop's thread is, in thousandths, if it has one.
    pub fn busy(&self, now: u64) -> Option<u64> {
        match &*self.state() {
            State::Assigned(runner) | State::Running(runner) => Some(runner.busy(now)),
            State::Unassigned(_) | State::Unavailable => None,
        }
    }

    /// The loop will never be run. Returns `false` if it has a thread already.
    pub fn cancel(&self) -> bool {
        let mut state = self.state();
        let unassigned = matches!(*state, State::Unassigned(_));
        if unassigned {
            *state = State::Unavailable;
        }
        unassigned
    }
}

impl WakeRunner for Assignment {
    fn wake_runner(&self) {
        if let State::Running(runner) = &*self.state() {
            return runner.wake_loop(self.id);
        }
        if !self.ensure_runner() {
            // Nothing was lost: the reason for the wake still exists when it is next woken.
            if let Some(native) = self.native.get().and_then(Weak::upgrade) {
                while !native.core.parking.rest() {}
            }
        }
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment").field("id", &self.id).finish()
    }
}
