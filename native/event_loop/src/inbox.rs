//! Work posted to a loop: many writers, one reader, no lock. The native library posts from any
//! thread and takes on the loop's thread.
//!
//! A linked stack. Writers push with one compare-and-swap and learn whether it was empty: that edge
//! is when the loop must be woken. The reader detaches everything at once and reverses it, so items
//! come out in the order of their arrival.
//!
//! The edge is sufficient: a push onto a non-empty stack is ordered before the reader's next
//! detach, and the writer that made the stack non-empty wakes the reader after its own push. So
//! either the reader takes both, or the second push found the stack empty and wakes the reader
//! itself.
#![allow(unsafe_code)] // nodes are owned by raw pointer while they are in the stack

use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Mutex;

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

struct Node<T> {
    value: T,
    next: *mut Node<T>,
}

/// Closing sets the lowest bit of the head, which no node's address has: so a push and a close
/// change the same word, and nothing can be pushed after the close.
const CLOSED: usize = 1;

fn is_closed<T>(head: *mut Node<T>) -> bool {
    head.addr() & CLOSED != 0
}

fn chain<T>(head: *mut Node<T>) -> *mut Node<T> {
    head.map_addr(|addr| addr & !CLOSED)
}

/// A queue from any thread to one thread.
///
/// ```
/// let inbox = event_loop::Inbox::new();
/// assert_eq!(inbox.push(1), Ok(true)); // was empty: wake the reader
/// assert_eq!(inbox.push(2), Ok(false));
/// assert_eq!(inbox.take().collect::<Vec<_>>(), [1, 2]);
/// ```
pub struct Inbox<T> {
    head: AtomicPtr<Node<T>>,
    /// Counts before the push and after the take, so it never reads too low for the limit.
    len: AtomicUsize,
    limit: usize,
    /// Values cross threads by value only: sharing is safe whenever the values may be sent, which
    /// is the rule of a mutex. `AtomicPtr` alone would allow it for any `T`.
    _values: PhantomData<Mutex<T>>,
}

impl<T> Inbox<T> {
    /// Without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(usize::MAX)
    }

    /// Rejects more than `limit` values.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
            len: AtomicUsize::new(0),
            limit,
            _values: PhantomData,
        }
    }

    /// Adds a value. `Ok(true)`: it was empty, wake the reader.
    ///
    /// # Errors
    /// [`Closed`](PushError::Closed) or [`Full`](PushError::Full), with the value.
    pub fn push(&self, value: T) -> Result<bool, PushError<T>> {
        // Relaxed: a count that orders nothing; `head` orders the values.
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.len.fetch_sub(1, Ordering::Relaxed);
            return Err(PushError::Full(value));
        }
        let node = Box::into_raw(Box::new(Node {
            value,
            next: ptr::null_mut(),
        }));
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if is_closed(head) {
                self.len.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: never published, so it is still exclusively ours.
                let node = unsafe { Box::from_raw(node) };
                return Err(PushError::Closed(node.value));
            }
            // SAFETY: not published yet, so no other thread reads it.
            unsafe { (*node).next = head };
            // Release: the thread that detaches the node sees its value and link.
            match self
                .head
                .compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed)
            {
                Ok(before) => return Ok(before.is_null()),
                Err(now) => head = now,
            }
        }
    }

    /// Detaches everything inside, oldest first. Values not iterated over are dropped.
    pub fn take(&self) -> Taken<T> {
        // Acquire: pairs with the pushes that published the nodes. Checking an empty inbox, the
        // common case, is a plain load.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if chain(head).is_null() {
                return Taken {
                    next: ptr::null_mut(),
                };
            }
            // A swap would lose the closed bit.
            let rest = if is_closed(head) {
                ptr::without_provenance_mut(CLOSED)
            } else {
                ptr::null_mut()
            };
            match self
                .head
                .compare_exchange_weak(head, rest, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(detached) => {
                    // SAFETY: the exchange made the chain exclusively ours.
                    let (next, count) = unsafe { reverse(chain(detached)) };
                    self.len.fetch_sub(count, Ordering::Relaxed);
                    return Taken { next };
                }
                Err(now) => head = now,
            }
        }
    }

    /// Passes everything inside to `f`, oldest first.
    pub fn take_all(&self, f: impl FnMut(T)) {
        self.take().for_each(f);
    }

    /// Rejects all pushes from now on. Values inside can still be taken.
    pub fn close(&self) {
        let mut head = self.head.load(Ordering::Relaxed);
        while !is_closed(head) {
            let closed = head.map_addr(|addr| addr | CLOSED);
            // Relaxed: the chain stays as its writers published it (a release sequence goes on
            // through read-modify-writes), and closing itself publishes nothing.
            match self.head.compare_exchange_weak(
                head,
                closed,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Whether pushes are rejected.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        is_closed(self.head.load(Ordering::Relaxed))
    }

    /// Whether there is nothing to take. Cheap, for the reader.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        chain(self.head.load(Ordering::Acquire)).is_null()
    }

    /// About how many values are inside: pushes in progress count already.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }
}

/// Reverses a chain, from newest first to oldest first, and counts it.
///
/// # Safety
/// The caller owns the chain: it starts at a node from `Box::into_raw` or is null, and no other
/// code reaches it.
unsafe fn reverse<T>(mut node: *mut Node<T>) -> (*mut Node<T>, usize) {
    let (mut reversed, mut count) = (ptr::null_mut(), 0);
    while !node.is_null() {
        // SAFETY: a live node of the caller's chain, by the condition above.
        let next = unsafe { std::mem::replace(&mut (*node).next, reversed) };
        (reversed, node) = (node, next);
        count += 1;
    }
    (reversed, count)
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        drop(self.take()); // frees what was not taken
    }
}

impl<T> std::fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox")
            .field("len", &self.len())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// What one [`take`](Inbox::take) detached, oldest first.
pub struct Taken<T> {
    next: *mut Node<T>,
}

// SAFETY: it owns its nodes and the values in them, as a `Vec<T>` would.
unsafe impl<T: Send> Send for Taken<T> {}

impl<T> Iterator for Taken<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: a node of the detached chain; each is boxed again exactly once, here.
        let node = unsafe { Box::from_raw(self.next) };
        self.next = node.next;
        Some(node.value)
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
