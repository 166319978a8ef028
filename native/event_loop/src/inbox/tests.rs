//! What is pushed is taken, once and in order. Loom tests the interleavings (`tests/`).

use super::*;
use std::sync::Arc;

#[test]
fn first_in_first_out_and_the_edge_is_reported_once() {
    let inbox = Inbox::new();
    assert_eq!(inbox.push(1), Ok(true));
    assert_eq!(inbox.push(2), Ok(false));
    assert_eq!((inbox.len(), inbox.is_empty()), (2, false));
    assert_eq!(inbox.take().collect::<Vec<_>>(), [1, 2]);
    assert_eq!((inbox.len(), inbox.is_empty()), (0, true));
    assert_eq!(inbox.push(3), Ok(true));
}

#[test]
fn the_limit_is_kept_and_room_comes_back() {
    let inbox = Inbox::with_limit(2);
    assert!(inbox.push('a').is_ok() && inbox.push('b').is_ok());
    assert_eq!(inbox.push('c'), Err(PushError::Full('c')));
    inbox.take_all(drop);
    assert_eq!(inbox.push('c'), Ok(true));
}

#[test]
fn closing_refuses_pushes_and_keeps_what_is_inside() {
    let inbox = Inbox::new();
    inbox.push(1).expect("open");
    inbox.close();
    inbox.close();
    assert_eq!(inbox.push(2), Err(PushError::Closed(2)));
    assert_eq!(inbox.take().collect::<Vec<_>>(), [1]);
    assert!(inbox.is_closed() && inbox.is_empty());
    assert_eq!(inbox.push(3), Err(PushError::Closed(3)));
    assert_eq!(inbox.len(), 0);
}

#[test]
fn nothing_leaks_and_nothing_is_freed_twice() {
    let value = Arc::new(());
    let inbox = Inbox::new();
    for _ in 0..5 {
        inbox.push(Arc::clone(&value)).expect("open");
    }
    let mut taken = inbox.take();
    assert!(taken.next().is_some());
    drop(taken);
    inbox.push(Arc::clone(&value)).expect("open");
    drop(inbox);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn each_writer_keeps_its_order_under_contention() {
    const WRITERS: usize = 4;
    const EACH: usize = if cfg!(miri) { 50 } else { 20_000 };
    let inbox = Inbox::new();
    let mut next = [0; WRITERS];
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let inbox = &inbox;
            scope.spawn(move || {
                for i in 0..EACH {
                    inbox.push((writer, i)).expect("open");
                }
            });
        }
        while next != [EACH; WRITERS] {
            inbox.take_all(|(writer, i)| {
                assert_eq!(i, next[writer]);
                next[writer] += 1;
            });
        }
    });
    assert_eq!(inbox.len(), 0);
}
