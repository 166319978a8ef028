//! Loops that Erlang starts and Python runs, each on a thread of its own: see
//! `py_event_loop_server`.

use event_loop::WaitPolicy;
use rustler::{Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::error::{done_or_error, Error};
use crate::loops::{registry, LoopRef, NativeLoop};
use crate::python::loop_thread::{self, Owner, Start};
use crate::python::main_thread;

/// The calling process owns the loop; it is told `{py_loop, Token, ...}`.
#[rustler::nif]
fn python_loop_start<'a>(
    env: Env<'a>,
    token: i64,
    name: String,
    init: String,
    limit: usize,
    patience_ms: u64,
) -> NifResult<Term<'a>> {
    let owner = Owner {
        pid: env.pid(),
        token,
    };
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let start = || -> Result<Ref<LoopRef>, Error> {
        let native = NativeLoop::for_requests(env, WaitPolicy::default(), limit)?;
        let reference = Ref::new(LoopRef::to(&native));
        let patience = patience_ms as f64 / 1e3;
        let given = (native.clone(), reference.clone());
        let started = loop_thread::start(
            given,
            Start {
                owner,
                name,
                init,
                patience,
            },
        );
        started.inspect_err(|_| native.close(Sender::Scheduler(env)))?;
        Ok(reference)
    };
    Ok(match start() {
        Ok(reference) => (atoms::ok(), reference).encode(env),
        Err(error) => (atoms::error(), error).encode(env),
    })
}

/// Coroutines of `py:call` run there. Only the process that owns the loop may say so: another
/// loop would never answer.
#[rustler::nif]
fn python_loop_set_default<'a>(env: Env<'a>, native: Ref<LoopRef>) -> NifResult<Term<'a>> {
    let native = match native.open() {
        Ok(native) => native,
        Err(error) => return Ok((atoms::error(), error).encode(env)),
    };
    if native.owner != Some(env.pid()) {
        return Err(rustler::Error::BadArg);
    }
    loop_thread::set_default_loop(&native);
    Ok(atoms::ok().encode(env))
}

/// It takes no more work, cancels its tasks and ends.
#[rustler::nif]
fn python_loop_stop<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    let result = native.open().map(|native| native.requests.stop(&native));
    done_or_error(env, result)
}

/// `{ok, Queued, Waiting}` of the loop that `owner` started.
#[rustler::nif]
fn python_loop_of(env: Env<'_>, owner: LocalPid) -> Term<'_> {
    match registry::owned_by(&owner) {
        Some(native) => {
            let requests = &native.requests;
            (atoms::ok(), requests.queued_len(), requests.waiting_len()).encode(env)
        }
        None => (atoms::error(), atoms::loop_down()).encode(env),
    }
}

/// The processes that own a loop.
#[rustler::nif]
fn python_loop_owners() -> Vec<LocalPid> {
    registry::owners()
}
