//! Signals of the operating system, for `py_signals` and `py_signal_handler`.

use rustler::{Atom, Env, NifResult, Term};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::beam::terms::decode_list;
use crate::loops::signals;
use crate::loops::signals::SignalRequest;

/// The calling process sets signal dispositions from now on.
#[rustler::nif]
fn signals_started(env: Env<'_>) -> Atom {
    signals::set_settler(Some(env.pid()));
    atoms::ok()
}

/// No process sets them any more: the application stops.
#[rustler::nif]
fn signals_stopped() -> Atom {
    signals::set_settler(None);
    atoms::ok()
}

/// The signals that loops want, and those taken from the VM so far.
#[rustler::nif]
fn signals_wanted() -> (Vec<Atom>, Vec<Atom>) {
    (signals::wanted(), signals::taken())
}

/// Records the current disposition of `signal`.
#[rustler::nif]
fn signal_take(signal: Atom) -> Atom {
    signals::take(signal);
    atoms::ok()
}

/// The disposition of `signal` before it was taken.
#[rustler::nif]
fn signal_give_back(signal: Atom) -> Atom {
    signals::take_back(signal).name()
}

/// Replies to a Python thread: all dispositions are set, except for the signals that the VM
/// rejected.
#[rustler::nif]
fn signals_settled(request: Ref<SignalRequest>, refused: Term<'_>) -> NifResult<Atom> {
    request.reply(decode_list(refused)?);
    Ok(atoms::ok())
}

/// Wakes the loops that want `signal`; `false` if there is none.
#[rustler::nif]
fn signal_arrived(signal: Atom) -> bool {
    signals::arrived(signal)
}
