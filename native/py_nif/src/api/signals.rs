//! Signals of the operating system, for `py_signals` and `py_signal_handler`.

use rustler::{Atom, Env};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::loops::signals::{self, Request};

/// The caller settles from now on.
#[rustler::nif]
fn signals_started(env: Env<'_>) -> Atom {
    signals::set_settler(Some(env.pid()));
    atoms::ok()
}

/// Nobody settles any more: the application stops.
#[rustler::nif]
fn signals_stopped() -> Atom {
    signals::set_settler(None);
    atoms::ok()
}

/// What loops want, and what was taken from the VM so far.
#[rustler::nif]
fn signals_wanted() -> (Vec<Atom>, Vec<Atom>) {
    (signals::wanted(), signals::taken())
}

/// Notes what `signal` does now.
#[rustler::nif]
fn signal_take(signal: Atom) -> Atom {
    signals::take(signal);
    atoms::ok()
}

/// What `signal` did before it was taken.
#[rustler::nif]
fn signal_give_back(signal: Atom) -> Atom {
    signals::give_back(signal).name()
}

/// Answers a Python thread: all is as wanted, but for the signals the VM refused.
#[rustler::nif]
fn signals_settled(request: Ref<Request>, refused: Vec<Atom>) -> Atom {
    request.answer(refused);
    atoms::ok()
}

/// Wakes the loops that want `signal`; `false` if there is none.
#[rustler::nif]
fn signal_arrived(signal: Atom) -> bool {
    signals::arrived(signal)
}
