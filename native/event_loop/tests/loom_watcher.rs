//! Does the watcher sleep while a loop is awake and has not woken it? All interleavings of a
//! watcher that goes to sleep with loops that wake and rest.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::Watcher;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// As in `loom_parking.rs`: seconds instead of minutes.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

struct Node {
    watcher: Watcher,
    awake: [AtomicBool; 2],
    woken: AtomicBool,
}

impl Node {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            watcher: Watcher::new(),
            awake: [AtomicBool::new(false), AtomicBool::new(false)],
            woken: AtomicBool::new(false),
        })
    }

    /// As `loops/pulse.rs` and `loops/watchdog.rs` of the native library do it.
    fn wake(&self, number: usize) {
        self.awake[number].store(true, Ordering::Relaxed);
        if self.watcher.sleeps() && self.watcher.claim_wake() {
            self.woken.store(true, Ordering::Relaxed);
        }
    }

    fn rest(&self, number: usize) {
        self.awake[number].store(false, Ordering::Relaxed);
    }

    fn sleeps(&self) -> bool {
        let awake = |one: &AtomicBool| one.load(Ordering::Relaxed);
        self.watcher.may_sleep(|| self.awake.iter().any(awake))
    }

    /// The watcher will check again, whatever happens.
    fn is_watched(&self, asleep: bool) -> bool {
        !asleep || self.woken.load(Ordering::Relaxed)
    }
}

fn spawn(node: &Arc<Node>, act: impl FnOnce(&Node) + 'static) -> thread::JoinHandle<()> {
    let node = Arc::clone(node);
    thread::spawn(move || act(&node))
}

#[test]
fn a_loop_that_wakes_is_seen_or_wakes_the_watcher() {
    check(|| {
        let node = Node::new();
        let one = spawn(&node, |node| node.wake(0));
        let other = spawn(&node, |node| node.wake(1));
        let asleep = node.sleeps();
        one.join().expect("one");
        other.join().expect("other");
        assert!(node.is_watched(asleep));
    });
}

/// One loop wakes and rests while another stays awake.
#[test]
fn a_loop_that_rests_leaves_the_watcher_to_the_other() {
    check(|| {
        let node = Node::new();
        let one = spawn(&node, |node| {
            node.wake(0);
            node.rest(0);
        });
        let other = spawn(&node, |node| node.wake(1));
        let asleep = node.sleeps();
        one.join().expect("one");
        other.join().expect("other");
        assert!(node.is_watched(asleep));
    });
}

/// A watcher that slept already: its successor, or a second check after it was woken.
#[test]
fn a_second_sleep_needs_a_second_wake() {
    check(|| {
        let node = Node::new();
        assert!(node.sleeps());
        let one = spawn(&node, |node| {
            node.wake(0);
            node.rest(0);
            node.wake(0);
        });
        let asleep = node.sleeps();
        one.join().expect("one");
        assert!(node.is_watched(asleep));
    });
}
