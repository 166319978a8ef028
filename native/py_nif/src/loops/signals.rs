//! Signals of the operating system on their way to the loops that handle them.
//!
//! Each loop records here which signals it wants; `py_signals` (Erlang) sets the VM's dispositions
//! accordingly, and `py_signal_handler` reports the signals that arrive. A scheduler thread only
//! sets the signal's bit and wakes the loop.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Sender as Channel, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use event_loop::SignalSet;
use rustler::{Atom, LocalPid};

use super::registry;
use crate::atoms;
use crate::beam::forked;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::resource::{Ref, Resource, TypeCell};
use crate::beam::signal;
use crate::beam::signal::Disposition;

/// A loop's signals.
#[derive(Default)]
pub struct Signals {
    /// Changed by the loop's owner, read by `py_signals` and by the threads that report a signal.
    wanted: SignalSet,
    arrived: SignalSet,
}

impl Signals {
    /// The check that each turn makes.
    #[inline]
    pub fn any(&self) -> bool {
        self.arrived.any()
    }

    /// The numbers of the signals that arrived since the last time.
    pub fn take(&self) -> impl Iterator<Item = i32> + use<> {
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
        if self.wanted.take().next().is_some()
            && let Some(settler) = settler()
        {
            // If it has died, its successor checks everything anyway.
            let _ = message::send(
                sender,
                &settler,
                (atoms::signals_changed(), atoms::undefined()),
            );
        }
    }
}

/// The result of a change that a Python thread requested.
pub enum Settled {
    /// Erlang reports the signal, or has returned it to the VM.
    Done,
    /// This VM does not let Erlang handle it.
    Refused,
    /// There is no process to ask: the application is not running.
    NotRunning,
}

/// Starts or stops watching signal `number` for the loop. Waits for `py_signals`, for some
/// microseconds: not for scheduler threads, and not with the GIL.
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

/// Asks `py_signals` to check which signals are wanted, and waits. A `py_signals` that died is
/// restarted within moments; a stopped one is not.
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

/// The signals that the VM rejects; `None` without a reply.
fn ask(settler: &LocalPid) -> Option<Vec<Atom>> {
    let (reply, replies) = channel();
    let request = Ref::new(SignalRequest(Mutex::new(reply)));
    if !message::send(Sender::Thread, settler, (atoms::signals_changed(), request)) {
        return None;
    }
    // Our own reference went with `request`: if the process dies before it replies, the last one is
    // gone, the channel closes, and this returns.
    replies.recv().ok()
}

/// A thread that waits in [`settle`]; the term in its message.
pub struct SignalRequest(Mutex<Channel<Vec<Atom>>>);

impl SignalRequest {
    pub fn reply(&self, refused: Vec<Atom>) {
        // The lock is only for `Sync`; there is one reply. The thread waits until it comes.
        let _ = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(refused);
    }
}

impl Resource for SignalRequest {
    const NAME: &'static std::ffi::CStr = c"erlang_loop.signal_request";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
}

/// The process that sets dispositions: `py_signals`, or the previous one until its successor
/// starts.
static SETTLER: Mutex<Option<LocalPid>> = Mutex::new(None);

pub fn set_settler(pid: Option<LocalPid>) {
    *SETTLER.lock().unwrap_or_else(PoisonError::into_inner) = pid;
}

fn settler() -> Option<LocalPid> {
    *SETTLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A signal arrived. Returns `false` if no loop wants it.
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

/// The signals that any loop wants.
pub fn wanted() -> Vec<Atom> {
    let loops = registry::all();
    named(|number| {
        let mut wants = loops
            .iter()
            .map(|native| native.signals.wanted.contains(number));
        wants.any(|wanted| wanted)
    })
}

/// The signals taken from the VM, with their previous dispositions: kept here, so that a restarted
/// `py_signals` restores them correctly. 0 for those not taken.
static TAKEN: [AtomicU8; 65] = [const { AtomicU8::new(0) }; 65];

pub fn taken() -> Vec<Atom> {
    named(|number| TAKEN[number as usize].load(Ordering::Acquire) != 0)
}

/// Records the disposition of a signal before Erlang starts handling it.
pub fn take(name: Atom) {
    if let Some(number) = number(name) {
        let before = signal::disposition(number) as u8;
        TAKEN[number as usize].store(before, Ordering::Release);
    }
}

/// Removes the record of a signal and returns its previous disposition.
pub fn take_back(name: Atom) -> Disposition {
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
