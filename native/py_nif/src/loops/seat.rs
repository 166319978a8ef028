//! Where a loop that Erlang started runs: nowhere yet, or on a runner (`runners/runner.rs`).
//!
//! Such a loop runs only once it has a request. Then it is assigned to a runner, once, and stays
//! there for life: asyncio, sqlite3 and thread-locals rely on that.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use event_loop::Carrier;

use super::NativeLoop;

/// A thread that runs loops.
pub trait Runs: Send + Sync {
    /// The loop of this number was woken while it rested.
    fn called(&self, id: u64);
    /// How many steps the thread has made so far, for any of its loops.
    fn steps(&self) -> u64;
}

/// Assigns a loop to a thread.
pub trait Place: Send {
    /// Returns the thread that will take the loop, or itself if there is none.
    fn place(self: Box<Self>, native: &Arc<NativeLoop>) -> Result<Arc<dyn Runs>, Box<dyn Place>>;
}

enum State {
    Fresh(Box<dyn Place>),
    /// Never to be run, or being assigned at this moment.
    Taken,
    /// Sent to a runner.
    Sent(Arc<dyn Runs>),
    On(Arc<dyn Runs>),
}

pub struct Seat {
    id: u64,
    native: OnceLock<Weak<NativeLoop>>,
    state: Mutex<State>,
    /// It is not fresh any more. Set under the lock of `state`, for a check that is nearly always
    /// sufficient.
    is_taken: AtomicBool,
}

impl Seat {
    pub fn new(id: u64, place: Box<dyn Place>) -> Self {
        Seat {
            id,
            native: OnceLock::new(),
            state: Mutex::new(State::Fresh(place)),
            is_taken: AtomicBool::new(false),
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
    pub fn fill(&self) -> bool {
        // Acquire: with the store below; no other data depends on it.
        if self.is_taken.load(Ordering::Acquire) {
            return true;
        }
        let mut state = self.state();
        let State::Fresh(_) = &*state else {
            return true;
        };
        let Some(native) = self.native.get().and_then(Weak::upgrade) else {
            return true;
        };
        // The runner takes the loop later, so the lock is free by then.
        match std::mem::replace(&mut *state, State::Taken) {
            State::Fresh(place) => match place.place(&native) {
                Ok(runner) => {
                    *state = State::Sent(runner);
                    self.is_taken.store(true, Ordering::Release);
                    true
                }
                Err(place) => {
                    *state = State::Fresh(place);
                    false
                }
            },
            _ => true,
        }
    }

    /// `runner` runs the loop from now on.
    pub fn take(&self, runner: Arc<dyn Runs>) {
        *self.state() = State::On(runner);
    }

    /// How many steps the loop's thread has made so far, if it has one: a loop waits for its turn
    /// as long as that number grows.
    pub fn steps(&self) -> Option<u64> {
        match &*self.state() {
            State::Sent(runner) | State::On(runner) => Some(runner.steps()),
            State::Fresh(_) | State::Taken => None,
        }
    }

    /// The loop will never be run. Returns `false` if it has a thread already.
    pub fn give_up(&self) -> bool {
        let mut state = self.state();
        let fresh = matches!(*state, State::Fresh(_));
        if fresh {
            *state = State::Taken;
        }
        fresh
    }
}

impl Carrier for Seat {
    fn call(&self) {
        if let State::On(runner) = &*self.state() {
            return runner.called(self.id);
        }
        if !self.fill() {
            // Nothing was lost: the reason for the wake still exists when it is next woken.
            if let Some(native) = self.native.get().and_then(Weak::upgrade) {
                while !native.core.parking.rest() {}
            }
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("id", &self.id).finish()
    }
}
