//! A loop's watches against what is known of some socket pairs: an event reaches only a watch that
//! is alive, of that fd and direction, and that is really ready; descriptors are closed without
//! telling the loop, duplicated, and their numbers reused.

use super::bytes::Bytes;
use event_loop::{Direction, Error, EventBuffer, EventLoop, Mode, WatchId};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

const PAIRS: usize = 4;

struct Pair {
    watched: UnixStream,
    peer: UnixStream,
    /// Keeps the kernel's entry alive after the number is closed.
    duplicate: Option<UnixStream>,
}

fn pair() -> Pair {
    let (watched, peer) = UnixStream::pair().expect("two descriptors");
    watched.set_nonblocking(true).expect("a socket");
    peer.set_nonblocking(true).expect("a socket");
    Pair {
        watched,
        peer,
        duplicate: None,
    }
}

/// Events by key; keys are never reused.
struct Watch {
    id: WatchId,
    fd: RawFd,
    direction: Direction,
    paused: bool,
}

pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let events = EventLoop::new().expect("an epoll set");
    let mut pairs: Vec<Pair> = (0..PAIRS).map(|_| pair()).collect();
    let mut watches: HashMap<u64, Watch> = HashMap::new();
    let mut next_key = 1;
    while let Some(step) = bytes.next() {
        let which = bytes.below(PAIRS);
        let direction = match step & 128 {
            0 => Direction::Read,
            _ => Direction::Write,
        };
        match step % 12 {
            0..=3 => {
                let fd = pairs[which].watched.as_raw_fd();
                let mode = match bytes.below(3) {
                    0 => Mode::LEVEL,
                    1 => Mode::EDGE,
                    _ => Mode::ONESHOT,
                };
                let id = events.watch(fd, direction, next_key, mode).expect("open");
                watches.retain(|_, watch| watch.fd != fd || watch.direction != direction);
                watches.insert(
                    next_key,
                    Watch {
                        id,
                        fd,
                        direction,
                        paused: false,
                    },
                );
                next_key += 1;
            }
            4 => {
                if let Some(key) = chosen(&watches, &mut bytes) {
                    let watch = watches.remove(&key).expect("chosen");
                    assert!(events.unwatch(watch.id, watch.direction));
                    assert!(!events.unwatch(watch.id, watch.direction));
                }
            }
            5 | 6 => {
                if let Some(key) = chosen(&watches, &mut bytes) {
                    let watch = watches.get_mut(&key).expect("chosen");
                    watch.paused = step % 12 == 5;
                    let done = match watch.paused {
                        true => events.pause(watch.id, watch.direction),
                        false => events.resume(watch.id, watch.direction),
                    };
                    done.expect("alive");
                }
            }
            7 => drop((&pairs[which].peer).write(b"x")),
            8 => drop((&pairs[which].watched).read(&mut [0; 64])),
            9 => {
                // In an orderly way: the loop is notified first.
                let fd = pairs[which].watched.as_raw_fd();
                events.forget_fd(fd);
                watches.retain(|_, watch| watch.fd != fd);
                pairs[which] = pair();
            }
            10 => {
                // Without telling the loop; the new pair has the old number, most of the time.
                let fd = pairs[which].watched.as_raw_fd();
                let duplicate = (bytes.below(2) == 0)
                    .then(|| pairs[which].watched.try_clone().expect("a descriptor"));
                let old = std::mem::replace(&mut pairs[which], placeholder(duplicate));
                drop(old);
                let duplicate = pairs[which].duplicate.take();
                pairs[which] = pair();
                pairs[which].duplicate = duplicate;
                // The watched descriptor no longer exists; a late call for it must be harmless.
                for (_, watch) in watches.extract_if(|_, watch| watch.fd == fd) {
                    let _ = events.unwatch(watch.id, watch.direction);
                    assert_eq!(events.pause(watch.id, watch.direction), Err(Error::Stale));
                }
            }
            _ => look(&events, &pairs, &watches),
        }
    }
    look(&events, &pairs, &watches);
    assert!(events.close().expect("it is not running"));
}

fn placeholder(duplicate: Option<UnixStream>) -> Pair {
    // Takes two numbers, so that the freed one is the next to be assigned.
    let mut pair = pair();
    pair.duplicate = duplicate;
    pair
}

fn chosen(watches: &HashMap<u64, Watch>, bytes: &mut Bytes<'_>) -> Option<u64> {
    let mut keys: Vec<_> = watches.keys().copied().collect();
    keys.sort_unstable();
    match keys.len() {
        0 => None,
        count => Some(keys[bytes.below(count)]),
    }
}

fn look(events: &EventLoop, pairs: &[Pair], watches: &HashMap<u64, Watch>) {
    let mut buffer = EventBuffer::new();
    let mut ready = Vec::new();
    events.poll_now(&mut buffer).expect("polled");
    events.resolve_into(&buffer, &mut ready);
    for event in &ready {
        for (key, direction) in [
            (event.read, Direction::Read),
            (event.write, Direction::Write),
        ] {
            let Some(key) = key else { continue };
            let watch = watches.get(&key).expect("only live watches get events");
            assert!(watch.fd == event.fd && watch.direction == direction && !watch.paused);
            assert!(
                pairs
                    .iter()
                    .any(|pair| pair.watched.as_raw_fd() == event.fd)
            );
        }
    }
}
