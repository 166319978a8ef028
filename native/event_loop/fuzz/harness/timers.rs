//! The timer heap against a sorted list: same order, same deadlines, nothing cancelled fires, no
//! value is lost or dropped twice.

use super::bytes::Bytes;
use event_loop::{Cancel, TimerHeap};
use std::cell::Cell;
use std::rc::Rc;

struct Timer {
    id: usize,
    cancelled: Rc<Cell<bool>>,
    alive: Rc<Cell<usize>>,
}

impl Cancel for Timer {
    fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

pub fn run(data: &[u8]) {
    let alive = Rc::new(Cell::new(0));
    let mut bytes = Bytes(data);
    let mut heap = TimerHeap::new();
    // Live timers by deadline and id, which is the order they must fire in.
    let mut model: Vec<(u64, usize, Rc<Cell<bool>>)> = Vec::new();
    let mut next = 0;
    while let Some(step) = bytes.next() {
        match step % 9 {
            0..=3 => {
                let when = bytes.below(32) as u64;
                let cancelled = Rc::new(Cell::new(false));
                alive.set(alive.get() + 1);
                heap.schedule(
                    when,
                    Timer {
                        id: next,
                        cancelled: cancelled.clone(),
                        alive: alive.clone(),
                    },
                );
                let at = model.partition_point(|(other, ..)| *other <= when);
                model.insert(at, (when, next, cancelled));
                next += 1;
            }
            4 | 5 if !model.is_empty() => {
                let (_, _, cancelled) = model.remove(bytes.below(model.len()));
                cancelled.set(true);
                heap.note_cancelled();
            }
            6 => {
                let now = bytes.below(34) as u64;
                while let Some(timer) = heap.pop_due(now) {
                    let (when, id, _) = model.remove(0);
                    assert!(when <= now && id == timer.id);
                }
                assert!(model.first().is_none_or(|(when, ..)| *when > now));
            }
            7 => {
                let now = bytes.below(34) as u64;
                heap.take_due(now, |timer| {
                    let (when, id, _) = model.remove(0);
                    assert!(when <= now && id == timer.id);
                });
                assert!(model.first().is_none_or(|(when, ..)| *when > now));
            }
            _ => {
                let expected = model.first().map(|(when, ..)| *when);
                assert_eq!(heap.next_deadline(), expected);
                drop(heap.take_discarded());
            }
        }
        assert_eq!(heap.live_len(), model.len());
    }
    drop(heap);
    assert_eq!(alive.get(), 0);
}
