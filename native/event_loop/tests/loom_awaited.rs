//! Does every thread that waits for a value learn of its change? All interleavings; a lost wake-up
//! is a deadlock, which loom reports.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::Awaited;
use loom::sync::Arc;
use loom::thread;

fn change(awaited: &Awaited<u32>) {
    *awaited.lock() += 1;
    awaited.announce();
}

#[test]
fn a_sleeper_is_woken() {
    loom::model(|| {
        let awaited = Arc::new(Awaited::new(0));
        let changes = {
            let awaited = Arc::clone(&awaited);
            thread::spawn(move || {
                change(&awaited);
                change(&awaited);
            })
        };
        assert!(awaited.sleep(None, |value| *value == 2));
        changes.join().expect("changes");
    });
}

#[test]
fn all_sleepers_are_woken() {
    loom::model(|| {
        let awaited = Arc::new(Awaited::new(0));
        let sleeper = {
            let awaited = Arc::clone(&awaited);
            thread::spawn(move || assert!(awaited.sleep(None, |value| *value == 1)))
        };
        let changes = {
            let awaited = Arc::clone(&awaited);
            thread::spawn(move || change(&awaited))
        };
        assert!(awaited.sleep(None, |value| *value == 1));
        changes.join().expect("changes");
        sleeper.join().expect("sleeps");
    });
}

#[test]
fn a_notified_thread_finds_the_change() {
    loom::model(|| {
        let awaited = Arc::new(Awaited::new(0));
        let before = awaited.changes();
        let changes = {
            let awaited = Arc::clone(&awaited);
            thread::spawn(move || change(&awaited))
        };
        if awaited.changes() != before {
            assert_eq!(*awaited.lock(), 1);
        }
        changes.join().expect("changes");
        assert_ne!(awaited.changes(), before);
    });
}
