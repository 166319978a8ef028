//! Is anybody up while the watcher sleeps and no alarm is set? All interleavings of a watcher that
//! goes to sleep and those who get up and lie down.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::{Alarm, Vigil};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// As in `loom_parking.rs`: seconds instead of minutes.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

struct Timer {
    is_missing: bool,
    is_set: AtomicBool,
}

impl Alarm for Timer {
    fn set(&self) -> bool {
        self.is_set.store(!self.is_missing, Ordering::Relaxed);
        !self.is_missing
    }
    fn clear(&self) {
        self.is_set.store(false, Ordering::Relaxed);
    }
}

struct Scene {
    vigil: Vigil,
    up: [AtomicBool; 2],
    timer: Timer,
    called: AtomicBool,
}

impl Scene {
    fn new(is_missing: bool) -> Arc<Self> {
        Arc::new(Self {
            vigil: Vigil::new(),
            up: [AtomicBool::new(false), AtomicBool::new(false)],
            timer: Timer {
                is_missing,
                is_set: AtomicBool::new(false),
            },
            called: AtomicBool::new(false),
        })
    }

    /// As `loops/pulse.rs` of the native library does it.
    fn get_up(&self, who: usize) {
        self.up[who].store(true, Ordering::Relaxed);
        let number = who as u64 + 1;
        if self.vigil.is_roused_by(number) && self.vigil.rouse(number, &self.timer) {
            self.called.store(true, Ordering::Relaxed);
        }
    }

    /// As `asyncio/turn/wait_steps.rs` does it, after a rest that was too long for the shorter waits.
    fn lie_down(&self, who: usize) {
        self.up[who].store(false, Ordering::Relaxed);
        self.vigil.lies_down(who as u64 + 1, &self.timer);
    }

    fn any_up(&self) -> bool {
        self.up.iter().any(|up| up.load(Ordering::Relaxed))
    }

    fn sleeps(&self) -> bool {
        self.vigil.may_sleep(|| self.any_up(), &self.timer)
    }

    /// The watcher will look, whatever happens.
    fn is_watched(&self, asleep: bool) -> bool {
        !asleep || self.timer.is_set.load(Ordering::Relaxed) || self.called.load(Ordering::Relaxed)
    }
}

fn spawn(scene: &Arc<Scene>, act: impl FnOnce(&Scene) + 'static) -> thread::JoinHandle<()> {
    let scene = Arc::clone(scene);
    thread::spawn(move || act(&scene))
}

#[test]
fn one_who_gets_up_is_seen_or_sets_the_alarm() {
    check(|| {
        let scene = Scene::new(false);
        let one = spawn(&scene, |scene| scene.get_up(0));
        let asleep = scene.sleeps();
        one.join().expect("one");
        assert!(scene.is_watched(asleep));
    });
}

#[test]
fn one_who_gets_up_is_seen_or_calls() {
    check(|| {
        let scene = Scene::new(true);
        let one = spawn(&scene, |scene| scene.get_up(0));
        let other = spawn(&scene, |scene| scene.get_up(1));
        let asleep = scene.sleeps();
        one.join().expect("one");
        other.join().expect("other");
        assert!(scene.is_watched(asleep));
    });
}

/// The first lies down again while the second gets up, and the watcher goes to sleep meanwhile.
#[test]
fn one_who_lies_down_leaves_the_alarm_to_the_other() {
    check(|| {
        let scene = Scene::new(false);
        let one = spawn(&scene, |scene| {
            scene.get_up(0);
            scene.lie_down(0);
        });
        let other = spawn(&scene, |scene| scene.get_up(1));
        let asleep = scene.sleeps();
        one.join().expect("one");
        other.join().expect("other");
        assert!(scene.is_watched(asleep));
    });
}

/// The same with a watcher that slept before, and looks because the alarm went off.
#[test]
fn an_alarm_that_goes_off_is_set_anew() {
    check(|| {
        let scene = Scene::new(false);
        assert!(scene.sleeps());
        let one = spawn(&scene, |scene| {
            scene.get_up(0);
            scene.lie_down(0);
            scene.get_up(0);
        });
        let asleep = scene.sleeps();
        one.join().expect("one");
        assert!(scene.is_watched(asleep));
    });
}

/// Both get up and lie down, one of them for good: no alarm is cleared that the other needs.
#[test]
fn an_alarm_is_cleared_by_the_only_one_up() {
    check(|| {
        let scene = Scene::new(false);
        assert!(scene.sleeps());
        let one = spawn(&scene, |scene| {
            scene.get_up(0);
            scene.lie_down(0);
        });
        let other = spawn(&scene, |scene| {
            scene.get_up(1);
            scene.lie_down(1);
            scene.get_up(1);
        });
        one.join().expect("one");
        other.join().expect("other");
        assert!(scene.is_watched(true));
    });
}
