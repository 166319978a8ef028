//! What Python prints and logs: see `py_output` and `py_logger`.

use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::output::device::{self, Device};
use crate::output::events;

/// The calling process is `py_output`. `wanted`: whether Python's output goes to group leaders.
#[rustler::nif]
fn output_started(env: Env<'_>, wanted: bool) -> Term<'_> {
    device::listen(wanted.then(|| env.pid()));
    atoms::ok().encode(env)
}

#[rustler::nif]
fn output_stopped(env: Env<'_>) -> Term<'_> {
    device::listen(None);
    atoms::ok().encode(env)
}

/// A device has replied; the bytes that were dropped on the way to it meanwhile.
#[rustler::nif]
fn output_done(device: Ref<Device>, bytes: usize) -> u64 {
    device.taken(bytes)
}

/// The calling process is `py_logger`, and takes so many events at a time.
#[rustler::nif]
fn logging_started(env: Env<'_>, limit: usize) -> Term<'_> {
    events::listen(env.pid(), limit);
    atoms::ok().encode(env)
}

#[rustler::nif]
fn logging_stopped(env: Env<'_>) -> Term<'_> {
    events::stop();
    atoms::ok().encode(env)
}

/// An event was dealt with; how many were dropped since the last time.
#[rustler::nif]
fn logging_done() -> u64 {
    events::done()
}
