//! The inbox against a queue: nothing is lost, nothing comes twice, the edge is reported once, and
//! no value leaks, whether it is taken, left behind or rejected.

use super::bytes::Bytes;
use event_loop::{Inbox, PushError};
use std::collections::VecDeque;
use std::sync::Arc;

pub fn run(data: &[u8]) {
    let counted = Arc::new(());
    let mut bytes = Bytes(data);
    let limit = bytes.below(20) + 1;
    let inbox = Inbox::with_limit(limit);
    let mut model: VecDeque<u32> = VecDeque::new();
    let (mut next, mut closed) = (0, false);
    while let Some(step) = bytes.next() {
        match step % 8 {
            0..=4 => {
                match inbox.push((next, counted.clone())) {
                    Ok(first) => {
                        assert!(!closed && model.len() < limit);
                        assert_eq!(first, model.is_empty());
                        model.push_back(next);
                    }
                    Err(PushError::Closed(_)) => assert!(closed),
                    Err(PushError::Full(_)) => assert!(model.len() >= limit),
                }
                next += 1;
            }
            5 => {
                // Only some of the taken values are iterated over; the rest is dropped with the
                // iterator.
                let looked_at = bytes.below(12);
                for (value, _) in inbox.take().take(looked_at) {
                    assert_eq!(Some(value), model.pop_front());
                }
                model.clear();
            }
            6 => inbox.take_all(|(value, _)| assert_eq!(Some(value), model.pop_front())),
            _ => {
                if bytes.below(8) == 0 {
                    inbox.close();
                    closed = true;
                }
                assert_eq!(inbox.is_closed(), closed);
            }
        }
        assert_eq!(inbox.len(), model.len());
        assert_eq!(inbox.is_empty(), model.is_empty());
    }
    drop(inbox);
    assert_eq!(Arc::strong_count(&counted), 1);
}
