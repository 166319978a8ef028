//! Signals of the operating system on their way to the loops that handle them.
//!
//! Which loop wants which signal is kept here, in the loops; `py_signals` (Erlang) makes the VM's
//! dispositions agree with it, and `py_signal_handler` reports what arrives. A signal is a bit
//! that is set, and the loop is woken: scheduler threads do no more than that.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{channel, Sender as Channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use event_loop::SignalSet;
use rustler::{Atom, LocalPid};

use super::registry;
use crate::atoms;
use crate::beam::forked;
use crate::beam::message::{self, Sender};
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::beam::signal::{self, Disposition};

/// A loop's signals.
#[derive(Default)]
pub struct Signals {
    /// Changed by the loop's owner, read by `py_signals` and whoever reports a signal.
    wanted: SignalSet,
    arrived: SignalSet,
}

impl Signals {
    /// The turn's look.
    #[inline]
    pub fn any(&self) -> bool {
        self.arrived.any()
    }

    /// The numbers of the signals that arrived since the last time.
    pub fn take(&self) -> impl Iterator<Item = i32> {
        self.arrived.take()
    }

    fn want(&self, number: i32, on: bool) {
        match on {
            true => self.wanted.insert(number),
            false => self.wanted.remove(number),
        }
    }

    /// The loop is closed and has left the registry.
    pub fn closed(&self, sender: Sender<'_>) {
        if self.wanted.take().next().is_some() {
            if let Some(settler) = settler() {
                // If it has died, its successor looks at everything anyway.
                let _ = message::send(
                    sender,
                    &settler,
                    (atoms::signals_changed(), atoms::undefined()),
                );
            }
        }
    }
}

/// How a change asked for by a Python thread was met.
pub enum Settled {
    /// Erlang reports the signal, or has returned it.
    Done,
    /// This VM does not let Erlang have it.
    Refused,
    /// There is nobody to ask: the application does not run.
    NotRunning,
}

/// Has the loop hear of `number`, or no longer. Waits for `py_signals`, for some microseconds:
/// not for scheduler threads, and not with the GIL.
pub fn watch(signals: &Signals, number: i32, on: bool) -> Settled {
    let Some(name) = name(number) else {
        return Settled::Refused;
    };
    if forked::is_copy() {
        return Settled::Refused;
    }
    signals.want(number, on);
    let settled = settle(name);
    if on && !matches!(settled, Settled::Done) {
        signals.want(number, false);
    }
    settled
}

/// Asks `py_signals` to look at what is wanted, and waits. One that died is restarted within
/// moments; one that was stopped is not.
fn settle(name: Atom) -> Settled {
    for _ in 0..1000 {
        let Some(settler) = settler() else {
            break;
        };
        match ask(&settler) {
            Some(refused) if refused.contains(&name) => return Settled::Refused,
            Some(_) => return Settled::Done,
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
    Settled::NotRunning
}

/// The signals that are refused; `None` if nobody answers.
fn ask(settler: &LocalPid) -> Option<Vec<Atom>> {
    let (answer, answers) = channel();
    let request = Ref::new(Request(Mutex::new(answer)));
    if !message::send(Sender::Thread, settler, (atoms::signals_changed(), request)) {
        return None;
    }
    // Our own reference went with `request`: if the process dies before it answers, the last one
    // is gone, the channel closes, and this returns all the same.
    answers.recv().ok()
}

/// A thread that waits in [`settle`]; the term in its message.
pub struct Request(Mutex<Channel<Vec<Atom>>>);

impl Request {
    pub fn answer(&self, refused: Vec<Atom>) {
        // The lock is for `Sync` only; there is one answer. The thread waits until it comes.
        let _ = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(refused);
    }
}

impl Resource for Request {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.signal_request";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}

/// The process that settles: `py_signals`, or the one that was, until the next is there.
static SETTLER: Mutex<Option<LocalPid>> = Mutex::new(None);

pub fn set_settler(pid: Option<LocalPid>) {
    *SETTLER.lock().unwrap_or_else(PoisonError::into_inner) = pid;
}

fn settler() -> Option<LocalPid> {
    *SETTLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A signal came. `false`: no loop wants it.
pub fn arrived(name: Atom) -> bool {
    let Some(number) = number(name) else {
        return false;
    };
    let mut taken = false;
    for native in registry::all() {
        if native.signals.wanted.contains(number) {
            native.signals.arrived.insert(number);
            native.core.wake();
            taken = true;
        }
    }
    taken
}

/// What the loops want, all together.
pub fn wanted() -> Vec<Atom> {
    let loops = registry::all();
    named(|number| {
        let mut wants = loops
            .iter()
            .map(|native| native.signals.wanted.contains(number));
        wants.any(|wanted| wanted)
    })
}

/// The signals taken from the VM, with what they did before: kept here, so that a `py_signals`
/// that was restarted returns them as they were. 0 for those not taken.
static TAKEN: [AtomicU8; 65] = [const { AtomicU8::new(0) }; 65];

pub fn taken() -> Vec<Atom> {
    named(|number| TAKEN[number as usize].load(Ordering::Acquire) != 0)
}

/// Notes what a signal does before Erlang is told to handle it.
pub fn take(name: Atom) {
    if let Some(number) = number(name) {
        let before = signal::disposition(number) as u8;
        TAKEN[number as usize].store(before, Ordering::Release);
    }
}

/// Forgets that a signal was taken and answers what it did before.
pub fn give_back(name: Atom) -> Disposition {
    let before = number(name).map_or(0, |number| TAKEN[number as usize].swap(0, Ordering::AcqRel));
    match before {
        before if before == Disposition::Handle as u8 => Disposition::Handle,
        before if before == Disposition::Ignore as u8 => Disposition::Ignore,
        _ => Disposition::Default,
    }
}

fn named(wanted: impl Fn(i32) -> bool) -> Vec<Atom> {
    let names = signal::NAMES.iter();
    names
        .filter(|(number, _)| wanted(*number))
        .map(|(_, name)| name())
        .collect()
}

fn name(number: i32) -> Option<Atom> {
    let found = signal::NAMES.iter().find(|(known, _)| *known == number);
    found.map(|(_, name)| name())
}

fn number(name: Atom) -> Option<i32> {
    let found = signal::NAMES.iter().find(|(_, known)| known() == name);
    found.map(|(number, _)| *number)
}
