//! Events kept for a caller who asks for them: loops driven from Erlang collect here what
//! `poll_events` found until `get_pending` takes it. Not shared; the loop holds it in a mutex.

use std::collections::HashSet;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A descriptor can be read.
    Read,
    /// A descriptor can be written.
    Write,
    /// A timer's time has come.
    Timer,
}

/// Callback ids with what happened, in the order it happened.
///
/// "Readable" twice says no more than once, so reads and writes of the same id are merged. A
/// timer fires once for each time it was set, so timers are not.
#[derive(Debug, Default)]
pub struct Pending {
    queue: Vec<(u64, Kind)>,
    waiting: HashSet<(u64, Kind)>,
}

impl Pending {
    /// Nothing pending.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an event. `false`: it was waiting already.
    pub fn push(&mut self, callback_id: u64, kind: Kind) -> bool {
        let fresh = kind == Kind::Timer || self.waiting.insert((callback_id, kind));
        if fresh {
            self.queue.push((callback_id, kind));
        }
        fresh
    }

    /// Takes everything, oldest first.
    pub fn take(&mut self) -> Vec<(u64, Kind)> {
        self.waiting.clear();
        std::mem::take(&mut self.queue)
    }

    /// How many events are waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_merges_what_says_the_same() {
        let mut pending = Pending::new();
        assert!(pending.push(1, Kind::Read));
        assert!(pending.push(2, Kind::Timer));
        assert!(pending.push(1, Kind::Write));
        assert!(!pending.push(1, Kind::Read));
        assert!(pending.push(2, Kind::Timer));
        assert_eq!(pending.len(), 4);
        let expected = [
            (1, Kind::Read),
            (2, Kind::Timer),
            (1, Kind::Write),
            (2, Kind::Timer),
        ];
        assert_eq!(pending.take(), expected);
        assert!(pending.is_empty());
        assert!(pending.push(1, Kind::Read), "taken, so it counts anew");
    }
}
