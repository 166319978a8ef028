//! Does an event ever reach the wrong watch? Threads open, watch, pause, close and reuse
//! thousands of descriptors, some closed without telling the loop, some kept alive by a duplicate,
//! while the owner polls. Numbers are reused at once, so any confusion of old and new shows.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)] // a test: also outside its `#[test]` functions

mod support;

use event_loop::{Direction, EventBuffer, EventLoop, Mode};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use support::Random;

const THREADS: u64 = 4;
const EACH: u64 = 2_000;

/// What is known about one key, set before it is watched.
#[derive(Default)]
struct Key {
    fd: AtomicI32,
    reports: AtomicU64,
    /// The ticket from which on it must get no events; 0 while it may.
    silent_since: AtomicU64,
}

struct Scene {
    events: EventLoop,
    keys: Vec<Key>,
    /// Orders "the watch had ended" and "the owner began to poll" across threads.
    tickets: AtomicU64,
    /// Polls the owner has finished.
    rounds: AtomicU64,
    progress: AtomicU64,
    done: AtomicBool,
}

impl Scene {
    fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn silence(&self, key: u64) {
        self.key(key)
            .silent_since
            .store(self.ticket(), Ordering::SeqCst);
    }

    /// Waits until the owner has polled and resolved at least once, from beginning to end: any
    /// wrong event for a silent key has been reported then. Two rounds, because the first may have
    /// begun before.
    fn await_round(&self) {
        let before = self.rounds.load(Ordering::SeqCst);
        while self.rounds.load(Ordering::SeqCst) < before + 2 {
            self.events.wake();
            std::thread::yield_now();
        }
    }

    fn key(&self, key: u64) -> &Key {
        &self.keys[usize::try_from(key).unwrap()]
    }

    /// Waits until the owner has reported `key` once more. The watchdog ends the test if that never
    /// happens.
    fn await_told(&self, key: u64) {
        let before = self.key(key).reports.load(Ordering::SeqCst);
        while self.key(key).reports.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
    }
}

/// A descriptor to watch and the end that makes it readable.
fn open(random: &mut Random) -> (OwnedFd, Box<dyn Write>) {
    struct Datagrams(UnixDatagram);
    impl Write for Datagrams {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    match random.below(3) {
        0 => {
            let (watched, other) = UnixStream::pair().unwrap();
            (watched.into(), Box::new(other))
        }
        1 => {
            let (watched, other) = UnixDatagram::pair().unwrap();
            (watched.into(), Box::new(Datagrams(other)))
        }
        _ => {
            let (watched, other) = std::io::pipe().unwrap();
            (watched.into(), Box::new(other))
        }
    }
}

/// The life of one descriptor. `loud` ones get a byte and must be reported; quiet ones must not.
fn live(scene: &Scene, random: &mut Random, key: u64) {
    let events = &scene.events;
    let loud = random.one_in(2);
    let (fd, mut other) = open(random);
    let number = fd.as_raw_fd();
    scene.key(key).fd.store(number, Ordering::SeqCst);
    if !loud {
        scene.silence(key);
    }
    let id = events
        .watch(number, Direction::Read, key, Mode::LEVEL)
        .unwrap();
    if loud {
        other.write_all(b"x").unwrap();
        scene.await_told(key);
        if random.one_in(4) {
            events.pause(id, Direction::Read).unwrap();
            scene.silence(key);
            scene.await_round();
            scene.key(key).silent_since.store(0, Ordering::SeqCst);
            events.resume(id, Direction::Read).unwrap();
            scene.await_told(key);
        }
    }
    match random.below(3) {
        0 => assert!(events.unwatch(id, Direction::Read)),
        1 => events.forget_fd(number),
        _ => {
            // Without telling the loop, and still readable. With the duplicate the kernel's entry
            // lives on under this number, and keeps firing.
            let duplicate = random.one_in(2).then(|| fd.try_clone().unwrap());
            // Until then it may be reported; from here on only as long as the number is not watched
            // again, which the other keys check.
            drop(fd);
            let (next, mut next_other) = open(random);
            let replaced = next.as_raw_fd() == number;
            live_on(scene, key + 1, &next, next_other.as_mut());
            if replaced {
                scene.silence(key);
                assert!(!events.unwatch(id, Direction::Read), "the old id is stale");
            }
            drop(duplicate);
            return;
        }
    }
    scene.silence(key);
}

/// The next descriptor, likely with the same number: quiet first, then loud.
fn live_on(scene: &Scene, key: u64, fd: &OwnedFd, other: &mut dyn Write) {
    let number = fd.as_raw_fd();
    scene.key(key).fd.store(number, Ordering::SeqCst);
    scene.silence(key);
    let id = scene
        .events
        .watch(number, Direction::Read, key, Mode::LEVEL)
        .unwrap();
    scene.await_round();
    scene.key(key).silent_since.store(0, Ordering::SeqCst);
    other.write_all(b"x").unwrap();
    scene.await_told(key);
    assert!(scene.events.unwatch(id, Direction::Read));
    scene.silence(key);
}

/// Polls and checks which keys get events; ends with a description of the first wrong one.
fn own(scene: &Scene) -> Result<(), String> {
    let (mut buf, mut ready) = (EventBuffer::new(), Vec::new());
    while !scene.done.load(Ordering::Acquire) {
        let began = scene.ticket();
        // The timeout is only for the end of the test.
        let mut polled = scene.events.poll_direct(&mut buf, Some(20_000_000));
        if polled == Ok(0) {
            polled = scene.events.poll_now(&mut buf); // a wake may have kept it from looking
        }
        polled.map_err(|error| error.to_string())?;
        scene.events.resolve_into(&buf, &mut ready);
        for event in ready.drain(..) {
            let (Some(key), None) = (event.read, event.write) else {
                return Err(format!("no key watches for writing: {event:?}"));
            };
            let known = scene.key(key);
            if event.fd != known.fd.load(Ordering::SeqCst) {
                return Err(format!("a key of another descriptor: {event:?}"));
            }
            let silent_since = known.silent_since.load(Ordering::SeqCst);
            if silent_since != 0 && silent_since < began {
                return Err(format!("{event:?} at {began}, silent since {silent_since}"));
            }
            known.reports.fetch_add(1, Ordering::SeqCst);
        }
        scene.rounds.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

#[test]
fn no_event_reaches_a_wrong_key() {
    let scene = Scene {
        events: EventLoop::new().unwrap(),
        keys: (0..=THREADS * EACH * 2).map(|_| Key::default()).collect(),
        tickets: AtomicU64::new(0),
        rounds: AtomicU64::new(0),
        progress: AtomicU64::new(0),
        done: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let scene = &scene;
        scope.spawn(|| {
            support::watchdog(&scene.progress, &scene.done, || {
                format!("{:#?}", scene.events)
            })
        });
        let owner = scope.spawn(|| {
            if let Err(wrong) = own(scene) {
                // The threads would wait for their events forever, so the process ends here;
                // written past the test's capture, which would hide it.
                let _ = writeln!(std::io::stderr(), "wrong event: {wrong}");
                std::process::exit(101);
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Random::new(thread + 1);
                    for i in 0..EACH {
                        live(scene, &mut random, (thread * EACH + i) * 2);
                        scene.progress.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = workers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        scene.done.store(true, Ordering::Release);
        owner.join().unwrap();
        assert!(outcomes.iter().all(Result::is_ok));
    });
    println!(
        "{} fds: {:?}",
        scene.progress.load(Ordering::Relaxed),
        scene.events.counters.snapshot()
    );
}
