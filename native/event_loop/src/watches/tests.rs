//! The events of watches, and what ids and keys survive. Real descriptors, a real epoll set.

use super::*;
use crate::epoll::EventBuffer;
use Direction::{Read as R, Write as W};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

struct Bench {
    set: EpollSet,
    table: Watches,
    near: UnixStream,
    far: UnixStream,
}

impl Bench {
    fn new() -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        Self {
            set: EpollSet::new().unwrap(),
            table: Watches::new(),
            near,
            far,
        }
    }

    fn fd(&self) -> RawFd {
        self.far.as_raw_fd()
    }

    fn watch(&mut self, dir: Direction, key: u64, mode: Mode) -> WatchId {
        self.table
            .watch(&self.set, self.far.as_raw_fd(), dir, key, mode)
            .unwrap()
    }

    fn polled(&self) -> Vec<RawEvent> {
        let mut out = EventBuffer::new();
        self.set.poll(&mut out, Some(0)).unwrap();
        out.iter().collect()
    }

    /// The keys that one poll reports: (reader, writer).
    fn reported(&mut self) -> (Option<u64>, Option<u64>) {
        let mut reported = (None, None);
        for event in self.polled() {
            let ready = self.table.resolve(&self.set, &event);
            reported = (reported.0.or(ready.read), reported.1.or(ready.write));
        }
        reported
    }
}

#[test]
fn reader_and_writer_are_distinguished() {
    let mut b = Bench::new();
    let reader = b.watch(R, 1, Mode::LEVEL);
    let writer = b.watch(W, 2, Mode::LEVEL);
    assert_eq!(reader.generation, writer.generation);
    assert_eq!(b.reported(), (None, Some(2)));
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), Some(2)));
    assert!(b.table.unwatch(&b.set, writer, W));
    assert!(!b.table.unwatch(&b.set, writer, W));
    assert_eq!(b.reported(), (Some(1), None));
    assert_eq!(b.table.unwatch_fd(&b.set, b.far.as_raw_fd(), R), Some(1));
    assert_eq!((b.reported(), b.table.len()), ((None, None), 0));
}

#[test]
fn a_replaced_watch_is_stale_and_the_other_direction_is_not() {
    let mut b = Bench::new();
    let old = b.watch(R, 1, Mode::LEVEL);
    let writer = b.watch(W, 2, Mode::LEVEL);
    let new = b.watch(R, 3, Mode::LEVEL);
    assert_eq!(b.table.pause(&b.set, old, R), Err(Error::Stale));
    assert_eq!(b.table.pause(&b.set, new, R), Ok(()));
    assert_eq!(b.table.pause(&b.set, writer, W), Ok(()));
    assert_eq!(b.table.key(b.fd(), R), Some(3));
}

#[test]
fn a_paused_descriptor_reports_no_hangup() {
    let mut b = Bench::new();
    let id = b.watch(R, 1, Mode::LEVEL);
    b.table.pause(&b.set, id, R).unwrap();
    b.table.pause(&b.set, id, R).unwrap();
    b.near.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(b.polled().is_empty());
    b.table.resume(&b.set, id, R).unwrap();
    assert_eq!(b.reported(), (Some(1), None));
}

#[test]
fn a_hangup_is_reported_to_both() {
    let mut b = Bench::new();
    b.watch(R, 1, Mode::LEVEL);
    b.watch(W, 2, Mode::ONESHOT);
    b.near.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(b.reported(), (Some(1), Some(2)));
}

#[test]
fn an_edge_is_reported_once_per_change_and_again_to_a_new_watch() {
    let mut b = Bench::new();
    b.watch(R, 1, Mode::EDGE);
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), None));
    assert_eq!(b.reported(), (None, None));
    b.watch(R, 2, Mode::EDGE);
    assert_eq!(b.reported(), (Some(2), None));
    b.near.write_all(b"y").unwrap();
    assert_eq!(b.reported(), (Some(2), None));
}

#[test]
fn oneshot_is_reported_once_until_resumed() {
    let mut b = Bench::new();
    let id = b.watch(R, 1, Mode::ONESHOT);
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), None));
    assert!(b.polled().is_empty());
    b.table.resume(&b.set, id, R).unwrap();
    assert_eq!(b.reported(), (Some(1), None));
}

#[test]
fn the_other_oneshot_watch_stays_enabled() {
    let mut b = Bench::new();
    b.watch(R, 1, Mode::ONESHOT);
    b.watch(W, 2, Mode::ONESHOT);
    assert_eq!(b.reported(), (None, Some(2)));
    assert!(b.polled().is_empty());
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), None));
}

#[test]
fn a_disabled_entry_stays_in_the_set_until_it_is_watched_again() {
    let mut b = Bench::new();
    b.watch(R, 1, Mode::ONESHOT);
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), None));
    let fd = b.fd();
    assert_eq!(b.table.unwatch_fd(&b.set, fd, R), Some(1));
    assert!(b.table.is_empty() && b.table.fds().next().is_none());
    assert_eq!(b.table.key(fd, R), None);
    b.near.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(b.polled().is_empty(), "not even a hangup");
    b.watch(R, 2, Mode::LEVEL);
    assert_eq!((b.reported(), b.table.len()), ((Some(2), None), 1));
}

#[test]
#[allow(unsafe_code, reason = "nothing safe replaces an open number")]
fn a_number_may_be_another_descriptor_after_it_was_disabled() {
    let mut b = Bench::new();
    b.watch(R, 1, Mode::ONESHOT);
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), None));
    let fd = b.fd();
    b.table.unwatch_fd(&b.set, fd, R);
    // A duplicate keeps the kernel's entry alive.
    let _duplicate = b.far.try_clone().unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    // SAFETY: both numbers are open and ours; the one that is replaced stays open as another.
    assert_eq!(unsafe { libc::dup2(far.as_raw_fd(), fd) }, fd);
    b.watch(R, 2, Mode::ONESHOT);
    assert_eq!(
        b.reported(),
        (None, None),
        "the old one is readable, the new one is not"
    );
    near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(2), None));
}

#[test]
fn oneshot_beside_level_still_fires_once() {
    let mut b = Bench::new();
    b.watch(R, 1, Mode::LEVEL);
    b.watch(W, 2, Mode::ONESHOT);
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), Some(2)));
    assert_eq!(b.reported(), (Some(1), None));
    let mut byte = [0];
    b.far.read_exact(&mut byte).unwrap();
    assert!(b.polled().is_empty());
}

#[test]
fn closed_numbers_are_refused_and_forgotten() {
    let mut b = Bench::new();
    let far = b.far.try_clone().unwrap();
    let fd = far.as_raw_fd();
    b.table.watch(&b.set, fd, R, 1, Mode::LEVEL).unwrap();
    drop(far); // without telling the table
    // Other tests open descriptors at the same time: the number may be in use again,
    // which is the reuse of the test below. Both results are right; the old reader must
    // be gone.
    match b.table.watch(&b.set, fd, W, 2, Mode::LEVEL) {
        Err(Error::BadFd | Error::NotPollable) => assert!(b.table.is_empty()),
        Ok(_) => assert_eq!(b.table.key(fd, R), None),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(
        b.table.watch(&b.set, -1, R, 1, Mode::LEVEL),
        Err(Error::BadFd)
    );
    b.table.forget_fd(&b.set, fd);
}

#[test]
fn an_event_of_an_older_registration_is_dropped() {
    let mut b = Bench::new();
    let old = b.watch(R, 1, Mode::LEVEL);
    b.near.write_all(b"x").unwrap();
    let events = b.polled();
    let fd = b.fd();
    b.table.forget_fd(&b.set, fd);
    let new = b.watch(R, 2, Mode::LEVEL);
    assert_ne!(old.generation, new.generation);
    let ready = b.table.resolve(&b.set, &events[0]);
    assert_eq!((ready.read, ready.write), (None, None));
    assert!(!b.table.unwatch(&b.set, old, R));
    assert_eq!(b.reported(), (Some(2), None));
}

#[test]
fn tokens_come_apart_as_they_were_put_together() {
    for (fd, generation) in [(0, 0), (7, u32::MAX), (RawFd::MAX, 1)] {
        assert_eq!(untoken(token(fd, generation)), (fd, generation));
        assert!(token(fd, generation) < crate::parking::TIMER_TOKEN);
    }
}

#[test]
fn a_watch_is_paused_by_its_descriptor() {
    let mut b = Bench::new();
    assert_eq!(b.table.pause_fd(&b.set, b.fd(), R), Err(Error::Stale));
    b.watch(R, 1, Mode::LEVEL);
    b.near.write_all(b"x").unwrap();
    assert_eq!(b.reported(), (Some(1), None));
    let fd = b.fd();
    b.table.pause_fd(&b.set, fd, R).unwrap();
    b.table.pause_fd(&b.set, fd, R).unwrap();
    assert_eq!(b.table.pause_fd(&b.set, fd, W), Err(Error::Stale));
    assert_eq!(b.reported(), (None, None));
    // Watching it again enables it again.
    b.watch(R, 1, Mode::LEVEL);
    assert_eq!(b.reported(), (Some(1), None));
}
