//! Work posted to a loop: many writers, one reader. The native library posts from any thread and
//! takes on the loop's thread.
//!
//! A writer learns whether the inbox was empty: that edge is when the loop must be woken. The
//! reader takes everything at once. The edge is sufficient: pushes and takes are ordered by the
//! lock, and the writer that made the inbox non-empty wakes the reader after its own push. So either
//! the reader takes a later value with the first one, or the later push found the inbox empty and
//! wakes the reader itself.

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;

/// Why a push was rejected; it contains the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushError<T> {
    /// The inbox was closed.
    Closed(T),
    /// The inbox is at its limit.
    Full(T),
}

impl<T> PushError<T> {
    /// The rejected value.
    pub fn into_inner(self) -> T {
        match self {
            Self::Closed(value) | Self::Full(value) => value,
        }
    }
}

/// A queue from any thread to one thread.
///
/// ```
/// let inbox = event_loop::Inbox::new();
/// assert_eq!(inbox.push(1), Ok(true)); // was empty: wake the reader
/// assert_eq!(inbox.push(2), Ok(false));
/// assert_eq!(inbox.take().collect::<Vec<_>>(), [1, 2]);
/// ```
#[derive(Debug)]
pub struct Inbox<T> {
    /// Locked for a push or a take only: no value is created or dropped meanwhile.
    contents: Mutex<Contents<T>>,
    /// The number of values, for readers without the lock. Changed under the lock; Release, so
    /// that a thread that reads it sees what its writer did before.
    len: AtomicUsize,
    limit: usize,
}

#[derive(Debug)]
struct Contents<T> {
    values: Vec<T>,
    is_closed: bool,
}

/// What one [`take`](Inbox::take) has taken, oldest first.
pub type Taken<T> = std::vec::IntoIter<T>;

impl<T> Inbox<T> {
    /// Without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(usize::MAX)
    }

    /// Rejects more than `limit` values.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        let contents = Contents {
            values: Vec::new(),
            is_closed: false,
        };
        Self {
            contents: Mutex::new(contents),
            len: AtomicUsize::new(0),
            limit,
        }
    }

    fn contents(&self) -> MutexGuard<'_, Contents<T>> {
        // Only whole values are added and removed: consistent also after a panic.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a value. `Ok(true)`: it was empty, wake the reader.
    ///
    /// # Errors
    /// [`Closed`](PushError::Closed) or [`Full`](PushError::Full), with the value.
    pub fn push(&self, value: T) -> Result<bool, PushError<T>> {
        let mut contents = self.contents();
        if contents.is_closed {
            return Err(PushError::Closed(value));
        }
        if contents.values.len() >= self.limit {
            return Err(PushError::Full(value));
        }
        contents.values.push(value);
        self.len.store(contents.values.len(), Ordering::Release);
        Ok(contents.values.len() == 1)
    }

    /// Takes everything inside, oldest first. Values not iterated over are dropped.
    pub fn take(&self) -> Taken<T> {
        if self.is_empty() {
            return Vec::new().into_iter();
        }
        let mut contents = self.contents();
        self.len.store(0, Ordering::Release);
        std::mem::take(&mut contents.values).into_iter()
    }

    /// Passes everything inside to `f`, oldest first.
    pub fn take_all(&self, f: impl FnMut(T)) {
        self.take().for_each(f);
    }

    /// Rejects all pushes from now on. Values inside can still be taken.
    pub fn close(&self) {
        self.contents().is_closed = true;
    }

    /// Whether pushes are rejected.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.contents().is_closed
    }

    /// Whether there is nothing to take. Takes no lock: the reader asks once per turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many values are inside.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
