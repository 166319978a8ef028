//! Threads that sleep on a timer of the VM, as `py_event_loop._erlang_sleep` has them do.
//!
//! The node's router holds the timer: `{sleep, Sleeper, Ms}` goes there, `py_nif:sleep_done/1`
//! comes back. Nothing hangs on the router: if it dies, its last reference to the sleeper goes
//! and the thread notices; and no wait is longer than the sleep itself.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender as Channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use event_loop::now_ns;

use super::registry;
use crate::atoms;
use crate::beam::message::{self, Sender};
use crate::beam::resource::{Ref, Resource, TypeCell};

/// A timer of the VM has a grain of 1 ms and may be as late: it ends this much before the sleep
/// does, and the kernel's clock has the rest.
const MARGIN: Duration = Duration::from_millis(2);

/// The VM's time ends somewhere; a longer sleep asks again.
const LONGEST_TIMER: Duration = Duration::from_secs(24 * 3600);

/// A thread that waits for its timer; the term in its message.
pub struct Sleeper(Mutex<Channel<()>>);

impl Sleeper {
    pub fn wake(&self) {
        // The lock is for `Sync` only. A thread that was interrupted does not listen any more.
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
    /// That of the VM. None: there is none yet, or nobody to hold it.
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

    /// Sleeps to the end, but no longer than `limit`: `true` at the end, and never before.
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

    /// `most` is what may be waited now of what is `left`.
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
            // The router died: no other is tried, one sleep is not worth it.
            Err(RecvTimeoutError::Disconnected) => {
                self.timer = None;
                self.without_erlang = true;
            }
        }
    }
}

/// Has the router start a timer; `None` if there is no router.
fn ask(left: Duration) -> Option<Receiver<()>> {
    let router = registry::default_router()?;
    let (answer, answers) = channel();
    let length = (left - MARGIN).min(LONGEST_TIMER).as_millis() as u64;
    let sleeper = Ref::new(Sleeper(Mutex::new(answer)));
    // Our own reference goes with the message.
    let sent = message::send(Sender::Thread, &router, (atoms::sleep(), sleeper, length));
    sent.then_some(answers)
}
