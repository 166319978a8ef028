//! Does a signal get lost between the thread that reports it and the loop that sleeps? All
//! interleavings. A lost signal leaves the owner asleep forever, which loom reports as a deadlock.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::{Parked, Parking, SignalSet};
use loom::sync::Arc;
use loom::thread;

/// The bound is the one of `loom_parking.rs`.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

#[test]
fn every_signal_comes_once() {
    check(|| {
        let scene = Arc::new((SignalSet::new(), Parking::new()));
        let reporters: Vec<_> = [2, 15]
            .into_iter()
            .map(|number| {
                let scene = Arc::clone(&scene);
                thread::spawn(move || {
                    scene.0.insert(number);
                    scene.1.wake();
                })
            })
            .collect();
        let mut came = Vec::new();
        while came.len() < 2 {
            // As a turn does it: the cheap check, and only then the expensive one.
            match scene.0.any() {
                true => came.extend(scene.0.take()),
                false => assert_eq!(scene.1.park(|| true, None), Parked::Woken),
            }
        }
        came.sort_unstable();
        assert_eq!(came, [2, 15]);
        for reporter in reporters {
            reporter.join().expect("reporter");
        }
        assert!(!scene.0.any());
    });
}

#[test]
fn removing_a_signal_leaves_the_others() {
    check(|| {
        let set = Arc::new(SignalSet::new());
        set.insert(1);
        let other = {
            let set = Arc::clone(&set);
            thread::spawn(move || set.insert(2))
        };
        set.remove(1);
        other.join().expect("inserter");
        assert!(set.contains(2) && !set.contains(1));
    });
}
