//! What Python prints and logs: see `py_output` and `py_logger`.

use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::output::device;
use crate::output::device::Device;
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

/// A device has replied. Returns how many bytes were dropped for it meanwhile.
#[rustler::nif]
fn output_done(device: Ref<Device>, bytes: usize) -> u64 {
    device.taken(bytes)
}

/// The calling process is `py_logger`, and takes at most this many events at a time.
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

/// An event was handled. Returns how many were dropped since the last time.
#[rustler::nif]
fn logging_done() -> u64 {
    events::done()
}
