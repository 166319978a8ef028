//! Is anybody up while the watcher sleeps and was not called? All interleavings of a watcher that
//! goes to sleep and one that gets up.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::Vigil;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::Arc;
use loom::thread;

/// As in `loom_parking.rs`: seconds instead of minutes.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

struct Scene {
    vigil: Vigil,
    up: [AtomicBool; 2],
    called: AtomicBool,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            vigil: Vigil::new(),
            up: [AtomicBool::new(false), AtomicBool::new(false)],
            called: AtomicBool::new(false),
        })
    }

    /// As `loops/pulse.rs` of the native library does it.
    fn get_up(&self, who: usize) {
        self.up[who].store(true, Ordering::Relaxed);
        if self.vigil.got_up() {
            self.called.store(true, Ordering::Relaxed);
        }
    }

    fn any_up(&self) -> bool {
        self.up.iter().any(|up| up.load(Ordering::Relaxed))
    }

    fn sleeps(&self) -> bool {
        self.vigil.may_sleep(|| self.any_up())
    }
}

#[test]
fn one_who_gets_up_is_seen_or_calls() {
    check(|| {
        let scene = Scene::new();
        let sleeper = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.get_up(0))
        };
        let asleep = scene.sleeps();
        sleeper.join().expect("sleeper");
        assert!(!asleep || scene.called.load(Ordering::Relaxed));
    });
}

#[test]
fn of_two_who_get_up_one_calls() {
    check(|| {
        let scene = Scene::new();
        let sleepers: Vec<_> = (0..2)
            .map(|who| {
                let scene = Arc::clone(&scene);
                thread::spawn(move || scene.get_up(who))
            })
            .collect();
        let asleep = scene.sleeps();
        for sleeper in sleepers {
            sleeper.join().expect("sleeper");
        }
        assert!(!asleep || scene.called.load(Ordering::Relaxed));
    });
}
