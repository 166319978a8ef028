//! Whether a loop is new, running, stopping or closed. `event_loop` owns one; the native library
//! changes it. There is one function per change; any change that is not in this table is an error.
//! Loom runs this very file (`tests/loom_life.rs`).
//!
//! | from | to | by |
//! |---|---|---|
//! | New | Running | [`start`](Life::start) |
//! | Running | Stopping | [`request_stop`](Life::request_stop) |
//! | Running, Stopping | New | [`stopped`](Life::stopped): a loop can be run again |
//! | New | Closed | [`close`](Life::close) |

use crate::error::{Error, Result};
use crate::sync::{AtomicU8, Ordering};

/// The state of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not running: new, or stopped and ready to run again.
    New = 0,
    /// A thread runs it.
    Running = 1,
    /// It ends after this turn.
    Stopping = 2,
    /// Permanently closed.
    Closed = 3,
}

impl State {
    fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::New,
            1 => Self::Running,
            2 => Self::Stopping,
            _ => Self::Closed, // only the four bytes above are ever stored
        }
    }
}

/// The state of one loop. Any thread.
#[derive(Debug)]
pub struct Life {
    /// Acquire and Release, so that a thread that sees a state also sees what was done before it.
    state: AtomicU8,
}

impl Life {
    /// The state of a new loop.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: AtomicU8::new(State::New as u8),
        }
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_byte(self.state.load(Ordering::Acquire))
    }

    /// Whether a thread runs it, stopping included.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.state(), State::Running | State::Stopping)
    }

    /// Whether it is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state() == State::Closed
    }

    /// A thread begins to run it.
    ///
    /// # Errors
    /// [`Running`](Error::Running) if it runs already, [`Closed`](Error::Closed).
    pub fn start(&self) -> Result<()> {
        self.change(|state| match state {
            State::New => Ok(State::Running),
            State::Running | State::Stopping => Err(Error::Running),
            State::Closed => Err(Error::Closed),
        })
        .map(|_| ())
    }

    /// Asks the running thread to stop. Repeated calls have no further effect.
    ///
    /// # Errors
    /// [`NotRunning`](Error::NotRunning) if no thread runs it, [`Closed`](Error::Closed).
    pub fn request_stop(&self) -> Result<()> {
        self.change(|state| match state {
            State::Running | State::Stopping => Ok(State::Stopping),
            State::New => Err(Error::NotRunning),
            State::Closed => Err(Error::Closed),
        })
        .map(|_| ())
    }

    /// The thread that ran it has stopped, requested or not.
    ///
    /// # Errors
    /// [`NotRunning`](Error::NotRunning) if no thread ran it, [`Closed`](Error::Closed).
    pub fn stopped(&self) -> Result<()> {
        self.change(|state| match state {
            State::Running | State::Stopping => Ok(State::New),
            State::New => Err(Error::NotRunning),
            State::Closed => Err(Error::Closed),
        })
        .map(|_| ())
    }

    /// Closes it; `true` for the one call that did it.
    ///
    /// # Errors
    /// [`Running`](Error::Running): stop it first.
    pub fn close(&self) -> Result<bool> {
        self.change(|state| match state {
            State::New | State::Closed => Ok(State::Closed),
            State::Running | State::Stopping => Err(Error::Running),
        })
        .map(|before| before != State::Closed)
    }

    /// Changes to the state that `next` returns, and returns the previous one.
    fn change(&self, next: impl Fn(State) -> Result<State>) -> Result<State> {
        let mut before = self.state();
        loop {
            match self.state.compare_exchange_weak(
                before as u8,
                next(before)? as u8,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(before),
                Err(now) => before = State::from_byte(now),
            }
        }
    }
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_again_after_stopping() {
        let life = Life::new();
        for _ in 0..2 {
            assert_eq!(life.start(), Ok(()));
            assert_eq!(life.start(), Err(Error::Running));
            assert_eq!(life.close(), Err(Error::Running));
            assert_eq!(life.request_stop(), Ok(()));
            assert_eq!(life.request_stop(), Ok(()));
            assert_eq!(life.state(), State::Stopping);
            assert_eq!(life.start(), Err(Error::Running));
            assert_eq!(life.stopped(), Ok(()));
        }
        assert_eq!(life.request_stop(), Err(Error::NotRunning));
        assert_eq!(life.stopped(), Err(Error::NotRunning));
    }

    #[test]
    fn closes_once_and_stays_closed() {
        let life = Life::new();
        assert_eq!(life.close(), Ok(true));
        assert_eq!(life.close(), Ok(false));
        assert_eq!(life.start(), Err(Error::Closed));
        assert_eq!(life.request_stop(), Err(Error::Closed));
        assert_eq!(life.stopped(), Err(Error::Closed));
        assert!(life.is_closed() && !life.is_running());
    }

    #[test]
    fn only_one_of_many_starts_it() {
        let life = Life::new();
        let won = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| life.start().is_ok()))
                .collect();
            racers
                .into_iter()
                .filter_map(|racer| racer.join().ok())
                .filter(|won| *won)
                .count()
        });
        assert_eq!(won, 1);
    }
}
