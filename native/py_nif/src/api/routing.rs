//! What a keeper (`py_event_router`, `py_event_worker`) does for its loops.

use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::beam::resource::Ref;
use crate::loops::sleeps::Sleeper;
use crate::loops::{PollSet, registry};

/// The calling process becomes the router of every loop that has no other keeper.
#[rustler::nif]
fn router_started(env: Env<'_>) -> Term<'_> {
    registry::set_default_router(env, env.pid());
    atoms::ok().encode(env)
}

/// A sleeping loop asked to be armed.
#[rustler::nif]
fn loop_arm<'a>(env: Env<'a>, poll_set: Ref<PollSet>) -> Term<'a> {
    if let Some(native) = poll_set.native() {
        native.arm_for_keeper(env, &poll_set);
    }
    atoms::ok().encode(env)
}

/// `{select, PollSet, _, ready_input}` came: the resource in it is the way back to the loop.
#[rustler::nif]
fn fd_ready<'a>(env: Env<'a>, poll_set: Ref<PollSet>) -> Term<'a> {
    if let Some(native) = poll_set.native() {
        native.poll_set_ready(env);
    }
    atoms::ok().encode(env)
}

/// The loop's `send_after` fired. A loop that is gone needs nothing.
#[rustler::nif]
fn timer_fired(env: Env<'_>, id: u64) -> Term<'_> {
    if let Some(native) = registry::get(id) {
        native.timer_fired(env);
    }
    atoms::ok().encode(env)
}

/// Removes a loop that a Python thread closed from the VM's poller.
#[rustler::nif]
fn loop_release<'a>(env: Env<'a>, poll_set: Ref<PollSet>) -> Term<'a> {
    if let Some(native) = poll_set.native() {
        native.release(env, &poll_set);
    }
    atoms::ok().encode(env)
}

/// The `send_after` of a sleeping thread fired.
#[rustler::nif]
fn sleep_done<'a>(env: Env<'a>, sleeper: Ref<Sleeper>) -> Term<'a> {
    sleeper.wake();
    atoms::ok().encode(env)
}
