//! One loop with its real descriptors: events, timer, wake and close.

use super::*;
use crate::now_ns;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

const MS: u64 = 1_000_000;

fn ready(events: &EventLoop, buf: &EventBuffer) -> Vec<Ready> {
    let mut out = Vec::new();
    events.resolve_into(buf, &mut out);
    out
}

#[test]
fn an_event_reaches_its_key() {
    let events = EventLoop::new().unwrap();
    let mut buf = EventBuffer::new();
    let (mut near, far) = UnixStream::pair().unwrap();
    let id = events
        .watch(far.as_raw_fd(), Direction::Read, 9, Mode::LEVEL)
        .unwrap();
    near.write_all(b"x").unwrap();
    assert_eq!(events.poll_direct(&mut buf, None), Ok(1));
    assert_eq!(ready(&events, &buf)[0].read, Some(9));
    events.pause(id, Direction::Read).unwrap();
    assert_eq!(events.poll_now(&mut buf), Ok(0));
    events.resume(id, Direction::Read).unwrap();
    assert_eq!(events.watched_len(), 1);
    assert!(events.unwatch(id, Direction::Read));
    assert_eq!(events.watched_len(), 0);
}

#[test]
fn the_timer_ends_a_wait_and_can_be_set_to_the_same_time_again() {
    let events = EventLoop::new().unwrap();
    let mut buf = EventBuffer::new();
    let when = now_ns() + 2 * MS;
    for _ in 0..2 {
        events.set_timer(Some(when)).unwrap();
        assert_eq!(events.poll_direct(&mut buf, None), Ok(1));
        assert!(now_ns() >= when);
        assert!(ready(&events, &buf).is_empty());
        assert_eq!(
            events.poll_now(&mut buf),
            Ok(0),
            "reported once, though never read"
        );
    }
    events.set_timer(Some(now_ns() + MS)).unwrap();
    events.set_timer(None).unwrap();
    assert_eq!(events.poll_direct(&mut buf, Some(3 * MS)), Ok(0));
}

#[test]
fn a_wake_ends_a_direct_wait_or_prevents_it() {
    let events = EventLoop::new().unwrap();
    let mut buf = EventBuffer::new();
    events.wake();
    assert_eq!(events.poll_direct(&mut buf, None), Ok(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while events.counters.polls.get() == 0 {
                std::thread::yield_now();
            }
            events.wake();
        });
        events.poll_direct(&mut buf, None).unwrap();
    });
    assert!(ready(&events, &buf).is_empty());
    assert_eq!(events.counters.snapshot().wakeups, 2);
    assert_eq!(
        events.poll_now(&mut buf),
        Ok(0),
        "the bell is reported once, though never read"
    );
}

#[test]
fn every_ring_of_the_bell_is_reported_though_it_is_never_read() {
    let events = EventLoop::new().unwrap();
    let mut buf = EventBuffer::new();
    for _ in 0..3 {
        assert!(events.parking.begin_polling());
        events.wake();
        assert_eq!(events.set().unwrap().poll(&mut buf, None), Ok(1));
        assert!(events.parking.end_polling());
    }
}

#[test]
fn a_closed_loop_refuses_requests_and_has_released_everything() {
    let events = EventLoop::new().unwrap();
    let mut buf = EventBuffer::new();
    let (mut near, far) = UnixStream::pair().unwrap();
    let id = events
        .watch(far.as_raw_fd(), Direction::Read, 1, Mode::LEVEL)
        .unwrap();
    near.write_all(b"x").unwrap();
    events.set_timer(Some(1)).unwrap();
    events.life.start().unwrap();
    assert_eq!(events.close(), Err(Error::Running));
    events.life.stopped().unwrap();
    assert_eq!(events.close(), Ok(true));
    assert_eq!(events.close(), Ok(false));
    assert_eq!(
        events.watch(far.as_raw_fd(), Direction::Read, 1, Mode::LEVEL),
        Err(Error::Closed)
    );
    assert_eq!(events.resume(id, Direction::Read), Err(Error::Closed));
    assert_eq!(events.set_timer(Some(2)), Err(Error::Closed));
    assert_eq!(events.poll_now(&mut buf), Err(Error::Closed));
    assert!(!events.unwatch(id, Direction::Read));
    assert_eq!(events.set().unwrap().poll(&mut buf, Some(0)), Ok(0));
}

#[test]
fn a_loop_on_a_runner_has_descriptors_only_when_it_needs_them() {
    #[derive(Debug)]
    struct Nobody;
    impl WakeRunner for Nobody {
        fn wake_runner(&self) {}
    }
    let events = EventLoop::with_runner(Arc::new(Nobody));
    let mut buf = EventBuffer::new();
    assert!(events.parking.rest());
    events.wake();
    assert_eq!(events.poll_now(&mut buf), Ok(0));
    assert_eq!(events.unwatch_fd(0, Direction::Read), None);
    assert_eq!(events.raw_fd(), None);
    let (mut near, far) = UnixStream::pair().unwrap();
    events
        .watch(far.as_raw_fd(), Direction::Read, 3, Mode::LEVEL)
        .unwrap();
    near.write_all(b"x").unwrap();
    assert_eq!(events.poll_now(&mut buf), Ok(1));
    assert_eq!(ready(&events, &buf)[0].read, Some(3));
    assert_eq!(events.raw_fd(), events.open_set().ok());
    // The bell is in the set: a wake ends a wait.
    assert!(
        events
            .unwatch_fd(far.as_raw_fd(), Direction::Read)
            .is_some()
    );
    std::thread::scope(|scope| {
        assert!(events.parking.take_notified());
        scope.spawn(|| events.wake());
        assert!(events.poll_direct(&mut buf, None).is_ok());
    });
}
