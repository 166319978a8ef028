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

    /// Whom to [`wake`].
    pub fn take_last(&mut self) -> Option<Bell> {
        self.0.pop()
    }

    /// It is awake. `true`: nobody has woken it.
    pub fn remove(&mut self, bell: &Bell) -> bool {
        let place = self.0.iter().rposition(|one| Arc::ptr_eq(one, bell));
        place.map(|place| self.0.remove(place)).is_some()
    }
}

/// Better without the pool's lock: who is woken needs it, and often gets the CPU at once, only to
/// sleep again until it is free. A worker that has got up by itself meanwhile is not disturbed.
pub(super) fn wake(sleeper: Option<Bell>) {
    if let Some(bell) = sleeper {
        bell.notify_one();
    }
}
