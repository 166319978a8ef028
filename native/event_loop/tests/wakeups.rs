//! Does a wake-up get lost? Eight threads post and make descriptors ready, at random moments, while
//! the owner sleeps sometimes in the epoll set and sometimes parked behind a thread that plays the
//! BEAM. Sleeps have no timeout (mostly), so one lost wake-up stops everything, and the watchdog
//! reports it. Run `WAKEUPS=1000000 cargo test --release --test wakeups` for a long test.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)] // a test: also outside its `#[test]` functions

mod support;

use event_loop::epoll::Interest;
use event_loop::{Direction, EpollSet, EventBuffer, EventLoop, Inbox, Mode, Parked, Ready};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use support::Random;

const POSTERS: usize = 8;

/// The loop, and how much of each poster's work has been taken.
struct Scene {
    events: EventLoop,
    inbox: Inbox<usize>,
    taken: [AtomicU64; POSTERS],
    progress: AtomicU64,
    done: AtomicBool,
}

impl Scene {
    fn new() -> Self {
        Self {
            events: EventLoop::new().unwrap(),
            inbox: Inbox::new(),
            taken: Default::default(),
            progress: AtomicU64::new(0),
            done: AtomicBool::new(false),
        }
    }

    fn took(&self, poster: usize, count: u64) {
        self.taken[poster].fetch_add(count, Ordering::Release);
        self.progress.fetch_add(count, Ordering::Relaxed);
    }

    fn state(&self) -> String {
        format!(
            "{:#?}\n{:?}\ntaken {:?}",
            self.events, self.inbox, self.taken
        )
    }
}

/// Posts `count` times, by inbox or by descriptor, and waits each time until it was taken: so the
/// owner has nothing else to do and falls asleep as often as possible.
fn post(scene: &Scene, poster: usize, count: u64, mut socket: UnixStream) {
    let mut random = Random::new(poster as u64 + 1);
    for posted in 1..=count {
        match random.below(8) {
            0 => std::thread::sleep(Duration::from_micros(random.below(100))),
            1 | 2 => (0..random.below(2_000)).for_each(|_| std::hint::spin_loop()),
            3 => std::thread::yield_now(),
            _ => {}
        }
        if random.one_in(3) {
            socket.write_all(b"x").unwrap();
        } else if scene.inbox.push(poster).unwrap() {
            scene.events.wake();
        }
        if random.one_in(500) {
            scene.events.parking.forget_arming(); // the router was restarted
        }
        if random.one_in(4) {
            continue; // sometimes several are in flight
        }
        while scene.taken[poster].load(Ordering::Acquire) < posted {
            std::thread::yield_now();
        }
    }
}

/// Plays the BEAM: on request, it watches the epoll fd once and reports.
fn beam(scene: &Scene, requests: &Receiver<()>) {
    let watcher = EpollSet::new().unwrap();
    let once = Interest {
        read: true,
        oneshot: true,
        ..Interest::default()
    };
    watcher
        .add(
            scene.events.raw_fd().unwrap(),
            Interest {
                oneshot: true,
                ..Interest::default()
            },
            0,
        )
        .unwrap();
    let mut buf = EventBuffer::new();
    while requests.recv().is_ok() {
        watcher
            .modify(scene.events.raw_fd().unwrap(), once, 0)
            .unwrap();
        // The timeout is only for the end of the test.
        while watcher.poll(&mut buf, Some(20_000_000)).unwrap() == 0 {
            if scene.done.load(Ordering::Acquire) {
                return;
            }
        }
        scene.events.parking.disarmed();
    }
}

/// Takes everything there is, then sleeps in one of the possible ways.
fn own(scene: &Scene, total: u64, sockets: &mut [UnixStream], requests: &Sender<()>) {
    let mut random = Random::new(99);
    let (mut buf, mut ready) = (EventBuffer::new(), Vec::<Ready>::new());
    let mut bytes = [0; 256];
    while scene.progress.load(Ordering::Relaxed) < total {
        scene.inbox.take_all(|poster| scene.took(poster, 1));
        scene.events.resolve_into(&buf, &mut ready);
        buf.clear();
        for poster in ready.drain(..).filter_map(|r| r.read) {
            let poster = usize::try_from(poster).unwrap();
            let count = sockets[poster].read(&mut bytes).unwrap();
            scene.took(poster, count as u64);
        }
        if scene.progress.load(Ordering::Relaxed) >= total {
            break;
        }
        // Without checking the inbox in between: going to sleep must notice by itself.
        let timeout = random.one_in(50).then(|| random.below(100_000));
        let outcome = match random.below(4) {
            0 => scene.events.poll_direct(&mut buf, timeout),
            1 => scene.events.poll_now(&mut buf),
            2 => {
                (0..1_000).any(|_| scene.events.parking.is_notified());
                scene.events.parking.take_notified();
                scene.events.poll_now(&mut buf)
            }
            _ => {
                // One in a hundred requests finds no process: then it waits directly.
                let arm = || !random.one_in(100) && requests.send(()).is_ok();
                match scene.events.park(arm, timeout) {
                    Parked::NotArmed => scene.events.poll_direct(&mut buf, timeout),
                    Parked::Woken | Parked::TimedOut => scene.events.poll_now(&mut buf),
                }
            }
        };
        outcome.unwrap();
    }
}

#[test]
fn none_is_lost() {
    let total: u64 = std::env::var("WAKEUPS").map_or(100_000, |n| n.parse().unwrap());
    let each = total / POSTERS as u64;
    let total = each * POSTERS as u64;
    let scene = Scene::new();
    let (near, mut far): (Vec<_>, Vec<_>) =
        (0..POSTERS).map(|_| UnixStream::pair().unwrap()).unzip();
    for (poster, socket) in far.iter().enumerate() {
        let key = poster as u64;
        scene
            .events
            .watch(socket.as_raw_fd(), Direction::Read, key, Mode::LEVEL)
            .unwrap();
    }
    let (requests, inbound) = channel();
    std::thread::scope(|scope| {
        let scene = &scene;
        scope.spawn(|| support::watchdog(&scene.progress, &scene.done, || scene.state()));
        scope.spawn(move || beam(scene, &inbound));
        for (poster, socket) in near.into_iter().enumerate() {
            scope.spawn(move || post(scene, poster, each, socket));
        }
        own(scene, total, &mut far, &requests);
        scene.done.store(true, Ordering::Release);
        drop(requests);
    });
    assert!(
        scene
            .taken
            .iter()
            .all(|taken| taken.load(Ordering::Relaxed) == each)
    );
    println!("{total} wake-ups: {:?}", scene.events.counters.snapshot());
}
