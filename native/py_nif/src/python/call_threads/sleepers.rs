//! Workers that sleep. The one that went to sleep last is woken first: its memory is in a cache, and
//! those that there is no need for sleep for long enough to notice that.

use std::sync::{Arc, Condvar};

/// What one of them is woken with.
pub(super) type Bell = Arc<Condvar>;

/// Guarded by the pool's lock, which all bells are waited for with.
pub(super) struct Sleepers(Vec<Bell>);

impl Sleepers {
    pub const fn new() -> Self {
        Sleepers(Vec::new())
    }

    pub fn add(&mut self, bell: &Bell) {
        self.0.push(bell.clone());
    }

    pub fn wake_last(&mut self) {
        if let Some(bell) = self.0.pop() {
            bell.notify_one();
        }
    }

    /// It is awake. `true`: nobody has woken it.
    pub fn remove(&mut self, bell: &Bell) -> bool {
        let place = self.0.iter().rposition(|one| Arc::ptr_eq(one, bell));
        place.map(|place| self.0.remove(place)).is_some()
    }
}
