//! Does a wake-up get lost? All interleavings of an owner, the threads that post to it and the
//! BEAM. A lost wake-up leaves the owner asleep forever, which loom reports as a deadlock.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::{Inbox, Parked, Parking};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// With three preemptions this takes seconds and has found every bug inserted on purpose so far:
/// the flag cleared after the wake or requested before the announcement, a wake that only reads,
/// stores in place of exchanges, relaxed orders. `LOOM_MAX_PREEMPTIONS=5` takes a minute.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

/// What the threads share: the loop's parts, and an epoll set with one descriptor in it.
struct Scene {
    parking: Parking,
    inbox: Inbox<u32>,
    /// The descriptor is ready; the epoll fd is readable as long as this is set.
    event: AtomicBool,
    /// Requests to arm, and how many were made.
    requests: Mutex<usize>,
    requested: Condvar,
    arms: AtomicUsize,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            parking: Parking::new(),
            inbox: Inbox::new(),
            event: AtomicBool::new(false),
            requests: Mutex::new(0),
            requested: Condvar::new(),
            arms: AtomicUsize::new(0),
        })
    }

    /// As the native library posts: wake on the edge only.
    fn post(&self, value: u32) {
        if self.inbox.push(value).expect("open") {
            self.parking.wake();
        }
    }

    /// What the owner's `arm` does: a message to the process.
    fn request(&self) -> bool {
        self.arms.fetch_add(1, Ordering::Relaxed);
        *self.requests.lock().expect("loom") += 1;
        self.requested.notify_one();
        true
    }

    /// What that process does: receives the message, and reports the epoll fd when it is readable
    /// (here it is made readable at this moment).
    fn beam(&self) {
        let mut requests = self.requests.lock().expect("loom");
        while *requests == 0 {
            requests = self.requested.wait(requests).expect("loom");
        }
        *requests -= 1;
        drop(requests);
        // A swap, not a store: loom allows a later swap to miss a store that it is not ordered
        // with.
        self.event.swap(true, Ordering::AcqRel);
        self.parking.disarmed();
    }

    fn take(&self) -> usize {
        self.inbox.take().count()
    }
}

#[test]
fn parked_owner_and_two_posters() {
    check(|| {
        let scene = Scene::new();
        let posters: Vec<_> = (0..2)
            .map(|value| {
                let scene = Arc::clone(&scene);
                thread::spawn(move || scene.post(value))
            })
            .collect();
        let mut taken = scene.take();
        while taken < 2 {
            let parked = scene.parking.park(|| scene.request(), None);
            assert_eq!(parked, Parked::Woken);
            taken += scene.take();
        }
        for poster in posters {
            poster.join().expect("poster");
        }
        assert!(
            scene.arms.load(Ordering::Relaxed) <= 1,
            "the standing request is not repeated"
        );
    });
}

#[test]
fn polling_owner_and_two_posters() {
    check(|| {
        let scene = Scene::new();
        let posters: Vec<_> = (0..2)
            .map(|value| {
                let scene = Arc::clone(&scene);
                thread::spawn(move || scene.post(value))
            })
            .collect();
        let mut taken = scene.take();
        while taken < 2 {
            if scene.parking.begin_polling() {
                scene.parking.bell().wait();
                scene.parking.end_polling();
            }
            taken += scene.take();
        }
        for poster in posters {
            poster.join().expect("poster");
        }
    });
}

#[test]
fn a_parked_owner_gets_the_item_and_the_event() {
    check(|| {
        let scene = Scene::new();
        let poster = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.post(1))
        };
        let beam = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.beam())
        };
        let (mut taken, mut events) = (0, 0);
        while taken < 1 || events < 1 {
            assert_eq!(scene.parking.park(|| scene.request(), None), Parked::Woken);
            taken += scene.take();
            events += usize::from(scene.event.swap(false, Ordering::AcqRel));
        }
        poster.join().expect("poster");
        beam.join().expect("beam");
        // The event fulfilled the request, so each of the two could be reported with one, not more.
        assert!(scene.arms.load(Ordering::Relaxed) <= 2);
    });
}

#[test]
fn an_event_during_a_pending_request_is_not_lost() {
    check(|| {
        let scene = Scene::new();
        // An earlier park has sent a request already, and was ended by a wake.
        scene.parking.wake();
        assert_eq!(
            scene.parking.park(|| unreachable!("notified"), None),
            Parked::Woken
        );
        let beam = {
            let scene = Arc::clone(&scene);
            // Two reports: the second requires a new request of the owner after the first.
            thread::spawn(move || {
                scene.beam();
                scene.beam();
            })
        };
        let mut events = 0;
        while scene.arms.load(Ordering::Relaxed) < 2 || events == 0 {
            assert_eq!(scene.parking.park(|| scene.request(), None), Parked::Woken);
            events += usize::from(scene.event.swap(false, Ordering::AcqRel));
        }
        beam.join().expect("beam");
        assert!(!scene.parking.is_armed());
    });
}

#[test]
fn an_owner_that_changes_between_polling_and_parking() {
    check(|| {
        let scene = Scene::new();
        let poster = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.post(1);
                scene.post(2);
            })
        };
        let mut taken = 0;
        let mut direct = true;
        while taken < 2 {
            if direct && scene.parking.begin_polling() {
                scene.parking.bell().wait();
                scene.parking.end_polling();
            } else if !direct {
                assert_eq!(scene.parking.park(|| scene.request(), None), Parked::Woken);
            }
            direct = !direct;
            taken += scene.take();
        }
        poster.join().expect("poster");
    });
}

#[test]
fn a_wake_while_no_keeper_arms_is_kept() {
    check(|| {
        let scene = Scene::new();
        let poster = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.post(1))
        };
        while scene.take() == 0 {
            if scene.parking.park(|| false, None) == Parked::NotArmed
                && scene.parking.begin_polling()
            {
                scene.parking.bell().wait();
                scene.parking.end_polling();
            }
        }
        poster.join().expect("poster");
        assert!(!scene.parking.is_armed());
    });
}

#[test]
fn a_new_router_is_asked_again() {
    check(|| {
        let scene = Scene::new();
        let router = Arc::new(AtomicUsize::new(1));
        let restart = {
            let (scene, router) = (Arc::clone(&scene), Arc::clone(&router));
            thread::spawn(move || {
                // The first router is dead; its successor is announced, then made known.
                router.store(2, Ordering::Release);
                scene.parking.forget_arming();
            })
        };
        let asked = AtomicUsize::new(0);
        while asked.load(Ordering::Relaxed) != 2 {
            let arm = || {
                let now = router.load(Ordering::Acquire);
                asked.store(now, Ordering::Relaxed);
                if now == 2 {
                    scene.parking.wake(); // it answers at once, so the model ends
                }
                true
            };
            assert_eq!(scene.parking.park(arm, None), Parked::Woken);
        }
        restart.join().expect("restart");
    });
}

/// A loop on a runner, and the runner: as `runners/runner.rs` does it.
#[derive(Debug)]
struct Runner {
    parking: Parking,
    called: Inbox<()>,
}

impl event_loop::WakeRunner for Runner {
    fn wake_runner(&self) {
        if self.called.push(()).expect("open") {
            self.parking.wake();
        }
    }
}

#[test]
fn a_loop_on_a_runner_gets_what_is_posted() {
    check(|| {
        let runner = std::sync::Arc::new(Runner {
            parking: Parking::new(),
            called: Inbox::new(),
        });
        // `Arc` of the standard library: `Parking` takes that one. Loom need not know of it.
        let on_runner = Arc::new((Parking::with_runner(runner.clone()), Inbox::new()));
        assert!(on_runner.0.rest());
        let posters: Vec<_> = (0..2)
            .map(|value| {
                let on_runner = Arc::clone(&on_runner);
                thread::spawn(move || {
                    if on_runner.1.push(value).expect("open") {
                        on_runner.0.wake();
                    }
                })
            })
            .collect();
        let mut taken = 0;
        while taken < 2 {
            if runner.called.take().count() == 0 {
                assert_eq!(runner.parking.park(|| true, None), Parked::Woken);
                continue;
            }
            // A turn, and another one if another thread woke the loop meanwhile.
            loop {
                taken += on_runner.1.take().count();
                if on_runner.0.rest() {
                    break;
                }
            }
        }
        for poster in posters {
            poster.join().expect("poster");
        }
    });
}

/// An owner without an epoll set: a post ends its sleep, and so does a set that another thread
/// creates meanwhile.
#[test]
fn a_sleep_without_a_set_misses_neither_a_post_nor_a_new_set() {
    check(|| {
        let scene = Scene::new();
        let poster = thread::spawn({
            let scene = scene.clone();
            move || scene.post(1)
        });
        let maker = thread::spawn({
            let scene = scene.clone();
            move || {
                // The set exists now; here the flag represents it.
                scene.event.swap(true, Ordering::AcqRel);
                scene.parking.wake();
            }
        });
        let mut taken = 0;
        while taken == 0 || !scene.event.load(Ordering::Acquire) {
            scene.inbox.take_all(|value| taken += value);
            if taken == 0 || !scene.event.load(Ordering::Acquire) {
                scene.parking.sleep(None);
            }
        }
        assert_eq!(taken, 1);
        poster.join().expect("no panic");
        maker.join().expect("no panic");
    });
}
