//! What is measured of the core: each operation is one part of a loop's daily work, repeated as
//! often as requested. `core` takes the time, `counted` is for counting instructions.

use event_loop::{Cancel, Direction, EventBuffer, EventLoop, Inbox, Mode, TimerHeap};
use std::cell::Cell;
use std::hint::black_box;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// A prepared operation, to be repeated this many times.
pub type Repeat = Box<dyn FnMut(u64)>;

/// Its name and the function that prepares it.
pub type Operation = (&'static str, fn() -> Repeat);

/// In the order of their names.
pub const ALL: [Operation; 7] = [
    ("inbox_push_and_take", inbox_push_and_take),
    ("inbox_push_hundred", inbox_push_hundred),
    ("poll_ten_ready", poll_ten_ready),
    ("timer_cancel", timer_cancel),
    ("timer_pop_and_push_1000", || timer_pop_and_push(1000)),
    ("timer_pop_and_push_1000000", || {
        timer_pop_and_push(1_000_000)
    }),
    ("watch_and_unwatch", watch_and_unwatch),
];

/// One value: in, and out again.
fn inbox_push_and_take() -> Repeat {
    let inbox = Inbox::new();
    Box::new(move |count| {
        for number in 0..count {
            assert_eq!(inbox.push(number).ok(), Some(true));
            assert_eq!(inbox.take().next(), Some(number));
        }
    })
}

/// A hundred values, taken together.
fn inbox_push_hundred() -> Repeat {
    let inbox = Inbox::new();
    Box::new(move |count| {
        let mut taken = 0;
        for number in 0..count {
            let _was_empty = inbox.push(number);
            if number % 100 == 99 {
                inbox.take_all(|_| taken += 1);
            }
        }
        inbox.take_all(|_| taken += 1);
        assert_eq!(taken, count);
    })
}

/// One poll of an epoll set with ten ready sockets, and resolving the events.
fn poll_ten_ready() -> Repeat {
    let events = EventLoop::new().expect("an epoll set");
    let mut pairs = Vec::new();
    for key in 0..10 {
        let (mut here, there) = UnixStream::pair().expect("a socket pair");
        here.write_all(b"ready").expect("room in the socket");
        events
            .watch(there.as_raw_fd(), Direction::Read, key, Mode::LEVEL)
            .expect("a watch");
        pairs.push((here, there));
    }
    let mut buffer = EventBuffer::new();
    let mut ready = Vec::new();
    Box::new(move |count| {
        for _ in 0..count {
            ready.clear();
            events.poll_now(&mut buffer).expect("an open loop");
            events.resolve_into(&buffer, &mut ready);
            assert_eq!(black_box(&ready).len(), pairs.len());
        }
    })
}

/// A handle, from the heap's point of view.
#[derive(Clone, Default)]
struct Timer(Rc<Cell<bool>>);

impl Cancel for Timer {
    fn is_cancelled(&self) -> bool {
        self.0.get()
    }
}

/// A timeout that is not needed, among a thousand others.
fn timer_cancel() -> Repeat {
    let mut timers = TimerHeap::new();
    for number in 0..1000 {
        timers.schedule(number, Timer::default());
    }
    Box::new(move |count| {
        for number in 0..count {
            let timer = Timer::default();
            timers.schedule(1000 + number, timer.clone());
            timer.0.set(true);
            timers.note_cancelled();
            drop(timers.take_discarded());
        }
        assert_eq!(timers.live_len(), 1000);
    })
}

/// The next timer runs, and another one is set, among this many others.
fn timer_pop_and_push(alive: u64) -> Repeat {
    let mut timers = TimerHeap::new();
    let mut random = 1_u64;
    // Numbers without a pattern (a linear congruential generator), the same in every run.
    let mut next = move || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 33
    };
    for _ in 0..alive {
        timers.schedule(next(), Timer::default());
    }
    Box::new(move |count| {
        for _ in 0..count {
            let now = timers.next_deadline().expect("timers are alive");
            let timer = timers.pop_due(now).expect("it is due");
            timers.schedule(now + next(), timer);
        }
    })
}

/// The cost of a write that did not fit: the fd is watched for writing, and then no longer.
fn watch_and_unwatch() -> Repeat {
    let events = EventLoop::new().expect("an epoll set");
    let (here, there) = UnixStream::pair().expect("a socket pair");
    Box::new(move |count| {
        for key in 0..count {
            let _id = events
                .watch(here.as_raw_fd(), Direction::Write, key, Mode::LEVEL)
                .expect("a watch");
            assert_eq!(
                events.unwatch_fd(here.as_raw_fd(), Direction::Write),
                Some(key)
            );
        }
        black_box(&there);
    })
}
