//! What each server counts, for metrics: read by scheduler threads, which never take the GIL.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Written by the loop's thread. Each number is read by itself, so no order is needed.
#[derive(Default)]
pub struct Numbers {
    /// The number of the server's loop.
    pub owner: u64,
    connections: AtomicU64,
    active: AtomicU64,
    served: AtomicU64,
    /// Responses by the first digit of their status, from 1 to 5.
    responses: [AtomicU64; 5],
}

/// A reading: the loop, connections, requests in progress and since the start, responses.
pub type Reading = (u64, u64, u64, u64, Vec<u64>);

/// Servers that exist. The lock is held for a few instructions.
static ALL: Mutex<Vec<Weak<Numbers>>> = Mutex::new(Vec::new());

impl Numbers {
    pub fn of_loop(owner: u64) -> Arc<Self> {
        let numbers = Arc::new(Numbers {
            owner,
            ..Numbers::default()
        });
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&numbers));
        numbers
    }

    pub fn set_connections(&self, open: usize) {
        self.connections.store(open as u64, Ordering::Relaxed);
    }

    /// A request begins. How many there have been.
    pub fn began(&self) -> u64 {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn ended(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn responded(&self, status: u16) {
        let class = usize::from(status / 100);
        if let Some(count) = self.responses.get(class.wrapping_sub(1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

pub fn readings() -> Vec<Reading> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.iter().filter_map(Weak::upgrade);
    all.map(|numbers| {
        let responses = numbers.responses.iter();
        (
            numbers.owner,
            numbers.connections.load(Ordering::Relaxed),
            numbers.active(),
            numbers.served(),
            responses
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
        )
    })
    .collect()
}
