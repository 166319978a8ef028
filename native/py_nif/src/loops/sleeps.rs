//! Threads that sleep on a timer of the VM, for `py_event_loop._erlang_sleep`.
//!
//! The node's router holds the timer: it receives `{sleep, Sleeper, Ms}`, and calls
//! `py_nif:sleep_done/1`. No thread depends on the router: if it dies, its last reference to the
//! sleeper is dropped and the thread notices; and no wait is longer than the sleep itself.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Channel, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use event_loop::now_ns;

use super::registry;
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};

/// A timer of the VM has a resolution of 1 ms and may be that late: it ends this much before the
/// sleep does, and the kernel's clock times the rest.
const MARGIN: Duration = Duration::from_millis(2);

/// The VM's time is limited; a longer sleep sets another timer.
const LONGEST_TIMER: Duration = Duration::from_secs(24 * 3600);

/// A thread that waits for its timer; the term in its message.
pub struct Sleeper(Mutex<Channel<()>>);

impl Sleeper {
    pub fn wake(&self) {
        // The lock is only for `Sync`. An interrupted thread does not receive any more.
        let _ = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(());
    }
}

impl Resource for Sleeper {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.sleeper";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}

/// One sleep of one thread.
pub struct Sleep {
    deadline: u64,
    /// The VM's timer. None: not requested yet, or there is no router.
    timer: Option<Receiver<()>>,
    without_erlang: bool,
}

impl Sleep {
    pub fn new(length: Duration) -> Self {
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Sleep {
            deadline: now_ns().saturating_add(length),
            timer: None,
            without_erlang: false,
        }
    }

    /// Sleeps until the end, but no longer than `limit`. Returns `true` at the end, never before.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let until = now_ns().saturating_add(limit.as_nanos() as u64);
        loop {
            let now = now_ns();
            if now >= self.deadline || now >= until {
                return now >= self.deadline;
            }
            let left = Duration::from_nanos(self.deadline - now);
            self.wait_once(left, left.min(Duration::from_nanos(until - now)));
        }
    }

    /// `most` is how much of `left` this wait may take.
    fn wait_once(&mut self, left: Duration, most: Duration) {
        if self.timer.is_none() && !self.without_erlang && left > MARGIN {
            self.timer = ask(left);
            self.without_erlang = self.timer.is_none();
        }
        let Some(timer) = &self.timer else {
            return thread::sleep(most);
        };
        match timer.recv_timeout(most) {
            Ok(()) => self.timer = None,
            Err(RecvTimeoutError::Timeout) => {}
            // The router died: no other is asked, because the thread can wait by itself.
            Err(RecvTimeoutError::Disconnected) => {
                self.timer = None;
                self.without_erlang = true;
            }
        }
    }
}

/// Asks the router to start a timer; `None` if there is no router.
fn ask(left: Duration) -> Option<Receiver<()>> {
    let router = registry::default_router()?;
    let (reply, replies) = channel();
    let length = (left - MARGIN).min(LONGEST_TIMER).as_millis() as u64;
    let sleeper = Ref::new(Sleeper(Mutex::new(reply)));
    // Our own reference goes with the message.
    let sent = message::send(Sender::Thread, &router, (atoms::sleep(), sleeper, length));
    sent.then_some(replies)
}
