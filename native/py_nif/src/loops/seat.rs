//! Where a loop that Erlang started runs: nowhere yet, or on a runner (`python/runner.rs`).
//!
//! Nobody runs such a loop before something is wanted of it. Then it is given a place, once, and
//! stays there for life: asyncio, sqlite3 and thread-locals take that for granted.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use event_loop::Carrier;

use super::NativeLoop;

/// A thread that runs loops.
pub trait Runs: Send + Sync {
    /// The loop of this number was woken while it rested.
    fn called(&self, id: u64);
    /// How many steps the thread has made so far, for whichever of its loops.
    fn steps(&self) -> u64;
}

/// What gives a loop its place.
pub trait Place: Send {
    /// The thread that will take the loop. Comes back if there is none to be had.
    fn place(self: Box<Self>, native: &Arc<NativeLoop>) -> Result<Arc<dyn Runs>, Box<dyn Place>>;
}

enum State {
    Fresh(Box<dyn Place>),
    /// Never to be run, or placed this moment.
    Taken,
    /// On its way to a runner.
    Sent(Arc<dyn Runs>),
    On(Arc<dyn Runs>),
}

pub struct Seat {
    id: u64,
    native: OnceLock<Weak<NativeLoop>>,
    state: Mutex<State>,
    /// It is not fresh any more. Set under the lock of `state`, for the look that nearly always
    /// is enough.
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
        // Called once, by the one who made both.
        let _ = self.native.set(Arc::downgrade(native));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Only ever replaced whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the loop a place if it has none. `false`: there is no thread for it now.
    pub fn fill(&self) -> bool {
        // Acquire: with the store below; nothing else is read on the strength of it.
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
        // The runner takes the seat in its own time, so the lock is free by then.
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

    /// How many steps the thread of the loop has made so far, if it has one: it waits for its turn
    /// as long as that grows.
    pub fn steps(&self) -> Option<u64> {
        match &*self.state() {
            State::Sent(runner) | State::On(runner) => Some(runner.steps()),
            State::Fresh(_) | State::Taken => None,
        }
    }

    /// Nobody runs the loop yet, and from now on nobody will. `false`: it has its place.
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
            // Nothing was lost: what it was woken for is still there when it is next woken.
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
