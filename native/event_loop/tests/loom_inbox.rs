//! Does every posted value come out once, in order, and is every edge reported? All interleavings.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::{Inbox, PushError};
use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;

/// A value whose reads and writes loom follows: taking it without seeing all its writer did
/// is an error, not only taking a wrong one.
fn tracked(value: i32) -> Cell<i32> {
    let cell = Cell::new(0);
    cell.set(value);
    cell
}

fn take(inbox: &Inbox<Cell<i32>>) -> Vec<i32> {
    inbox.take().map(|cell| cell.get()).collect()
}

#[test]
fn two_writers_and_a_reader() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let writers: Vec<_> = [10, 20]
            .into_iter()
            .map(|base| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    let pushes = [base, base + 1].map(|value| inbox.push(tracked(value)));
                    pushes
                        .into_iter()
                        .filter(|pushed| matches!(pushed, Ok(true)))
                        .count()
                })
            })
            .collect();
        let mut taken = take(&inbox);
        let mut takes = usize::from(!taken.is_empty());
        let edges: usize = writers.into_iter().map(|w| w.join().expect("writer")).sum();
        let rest = take(&inbox);
        takes += usize::from(!rest.is_empty());
        taken.extend(rest);

        // Each take that found something was preceded by exactly one edge: no wake is missed and
        // none is reported twice.
        assert_eq!(edges, takes);
        for base in [10, 20] {
            let own: Vec<_> = taken.iter().filter(|v| **v / 10 * 10 == base).collect();
            assert_eq!(own, [&base, &(base + 1)]);
        }
        assert!(inbox.is_empty());
        assert_eq!(inbox.len(), 0, "the count comes back");
    });
}

#[test]
fn close_splits_the_pushes_cleanly() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let writers: Vec<_> = (0..2)
            .map(|value| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || match inbox.push(tracked(value)) {
                    Ok(_) => Some(value),
                    Err(PushError::Closed(back)) => {
                        assert_eq!(back.get(), value);
                        None
                    }
                    Err(PushError::Full(_)) => unreachable!("no limit"),
                })
            })
            .collect();
        inbox.close();
        // What was accepted is inside at this point: nothing comes later.
        let mut taken = take(&inbox);
        let mut accepted: Vec<_> = writers
            .into_iter()
            .filter_map(|w| w.join().expect("writer"))
            .collect();
        assert!(inbox.take().next().is_none());
        taken.sort_unstable();
        accepted.sort_unstable();
        assert_eq!(taken, accepted);
    });
}

#[test]
fn the_limit_holds_with_two_writers() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::with_limit(1));
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.push(1).is_ok())
        };
        let mine = inbox.push(2).is_ok();
        let accepted = usize::from(other.join().expect("writer")) + usize::from(mine);
        assert!(accepted >= 1);
        assert_eq!(inbox.take().count(), accepted);
        assert!(accepted == 1, "nothing was taken in between");
    });
}
