//! Do timers fire in order, and never after being cancelled? The heap against a sorted list,
//! with random schedules, cancels and pops.

use event_loop::{Cancel, TimerHeap};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

#[derive(Clone)]
struct Timer {
    id: usize,
    cancelled: Rc<Cell<bool>>,
}

impl Cancel for Timer {
    fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Schedule(u64),
    /// Cancels one of the live timers, chosen by this number.
    Cancel(usize),
    /// Pops everything due by this time.
    Pop(u64),
    /// The same at once.
    Take(u64),
    NextDeadline,
    NextDeadlineBy(u64),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // Few different deadlines, so that many are equal.
        10 => (0_u64..50).prop_map(Step::Schedule),
        8 => any::<usize>().prop_map(Step::Cancel),
        1 => (0_u64..50).prop_map(Step::Pop),
        1 => (0_u64..50).prop_map(Step::Take),
        1 => (0_u64..50).prop_map(Step::NextDeadlineBy),
        2 => Just(Step::NextDeadline),
        1 => (0_u64..400).prop_map(|n| if n == 0 { Step::Clear } else { Step::NextDeadline }),
    ]
}

/// The heap and a list of the live timers as (deadline, id), which sorts as they must fire:
/// ids grow with the order of scheduling.
struct Pair {
    heap: TimerHeap<Timer>,
    model: Vec<(u64, Timer)>,
    next_id: usize,
}

impl Pair {
    fn schedule(&mut self, when: u64) {
        let timer = Timer {
            id: self.next_id,
            cancelled: Rc::default(),
        };
        self.next_id += 1;
        self.heap.schedule(when, timer.clone());
        let at = self.model.partition_point(|(other, _)| *other <= when);
        self.model.insert(at, (when, timer));
    }

    fn cancel(&mut self, choice: usize) {
        if !self.model.is_empty() {
            let (_, timer) = self.model.remove(choice % self.model.len());
            timer.cancelled.set(true);
            self.heap.note_cancelled();
        }
    }

    fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Schedule(when) => self.schedule(when),
            Step::Cancel(choice) => self.cancel(choice),
            Step::Pop(now) => {
                let due = self.model.partition_point(|(when, _)| *when <= now);
                for (_, expected) in self.model.drain(..due) {
                    let popped = self.heap.pop_due(now).map(|timer| timer.id);
                    prop_assert_eq!(popped, Some(expected.id));
                }
                prop_assert!(self.heap.pop_due(now).is_none());
            }
            Step::Take(now) => {
                let due = self.model.partition_point(|(when, _)| *when <= now);
                let expected: Vec<_> = self.model.drain(..due).map(|(_, one)| one.id).collect();
                let mut taken = Vec::new();
                self.heap.take_due(now, |timer| taken.push(timer.id));
                prop_assert_eq!(taken, expected);
            }
            Step::NextDeadlineBy(now) => {
                let expected = self.model.first().map(|(when, _)| *when);
                let deadline = self.heap.next_deadline_by(now);
                let both_due = deadline.max(expected).is_some_and(|when| when <= now);
                prop_assert!(deadline == expected || (expected.is_some() && both_due));
            }
            Step::NextDeadline => {
                let expected = self.model.first().map(|(when, _)| *when);
                prop_assert_eq!(self.heap.next_deadline(), expected);
            }
            Step::Clear => {
                self.heap.clear();
                self.model.clear();
            }
        }
        prop_assert_eq!(self.heap.live_len(), self.model.len());
        // Compaction promises: beyond the tolerated few, at most half is cancelled.
        let dead = self.heap.len() - self.model.len();
        prop_assert!(
            dead <= 64.max(self.heap.len() / 2),
            "{dead} of {} are dead",
            self.heap.len()
        );
        prop_assert_eq!(
            self.heap.iter().filter(|t| !t.is_cancelled()).count(),
            self.model.len()
        );
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_heap_does_what_a_sorted_list_does(
        steps in prop::collection::vec(step(), 1..1_000),
    ) {
        let mut pair = Pair { heap: TimerHeap::new(), model: Vec::new(), next_id: 0 };
        for step in &steps {
            pair.run(step)?;
        }
    }

    #[test]
    fn mass_cancelling_keeps_the_survivors_in_order(
        deadlines in prop::collection::vec(0_u64..100, 300..1_000),
        victims in prop::collection::vec(any::<usize>(), 200..900),
    ) {
        let mut pair = Pair { heap: TimerHeap::new(), model: Vec::new(), next_id: 0 };
        for when in deadlines {
            pair.schedule(when);
        }
        for victim in victims {
            pair.run(&Step::Cancel(victim))?;
        }
        pair.run(&Step::Pop(u64::MAX))?;
        prop_assert!(pair.heap.is_empty());
    }
}
