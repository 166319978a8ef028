//! Loops that Erlang starts and Python runs: see `py_event_loop_server`.

use event_loop::WaitPolicy;
use rustler::{Atom, Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::beam::terms::Elements;
use crate::cpython::process::main_thread;
use crate::error::Error;
use crate::loops::Origin;
use crate::loops::{LoopRef, NativeLoop, registry};
use crate::requests::on_loop;
use crate::requests::on_loop::loop_requests::{LoopRequests, RequestLimits};
use crate::runners::placement;
use crate::runners::start::{Owner, Start};

/// The options of `py_event_loop:start_link/1`.
#[derive(rustler::NifMap)]
struct Options {
    name: String,
    init: String,
    max_queue: usize,
    max_tasks: usize,
    /// Milliseconds.
    patience: u64,
    /// A thread of its own.
    own: bool,
    /// Microseconds to spin at most, and to wait directly; negative: the default.
    spin: i64,
    warm: i64,
}

impl Options {
    fn policy(&self) -> WaitPolicy {
        let mut policy = WaitPolicy::default();
        if let Ok(spin) = u64::try_from(self.spin) {
            policy.spin_max_ns = spin * 1000;
            policy.spin_start_ns = policy.spin_start_ns.min(policy.spin_max_ns);
        }
        if let Ok(warm) = u64::try_from(self.warm) {
            policy.wait_directly(warm * 1000);
        }
        policy
    }
}

/// The calling process owns the loop. `ready`: it accepts requests. `starting`: its init code runs
/// first, and the caller gets `{py_loop, Token, ...}`.
#[rustler::nif]
fn python_loop_start<'a>(
    env: Env<'a>,
    token: i64,
    options: Term<'a>,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    let options: Options = options.decode().map_err(|_| rustler::Error::BadArg)?;
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let announce = !options.init.is_empty();
    let policy = options.policy();
    let start = Start {
        owner: Owner {
            pid: env.pid(),
            token,
        },
        origin: Origin::new(env, leader),
        name: options.name,
        init: options.init,
        patience: options.patience as f64 / 1e3,
        own: options.own,
        take_requests: on_loop::take,
        announce,
    };
    let requests = LoopRequests::new(RequestLimits {
        queue: options.max_queue,
        unanswered: options.max_tasks,
    });
    let started = NativeLoop::for_requests(env, policy, Box::new(requests), Box::new(start));
    Ok(match started {
        Ok(native) => {
            let assigned = !announce
                || native
                    .assignment
                    .as_ref()
                    .is_some_and(|assignment| assignment.ensure_runner());
            if !assigned {
                native.close(Sender::Scheduler(env));
                let error = Error::Python("cannot start a thread for the loop".to_owned());
                return Ok((atoms::error(), error).encode(env));
            }
            let state = match announce {
                true => atoms::starting(),
                false => atoms::ready(),
            };
            (atoms::ok(), state, Ref::new(LoopRef::to(&native))).encode(env)
        }
        Err(error) => (atoms::error(), error).encode(env),
    })
}

/// Makes it the default loop, on which coroutines of `py:call` run. Only the process that owns the
/// loop may call this: another loop would never reply.
#[rustler::nif]
fn python_loop_set_default<'a>(env: Env<'a>, native: Ref<LoopRef>) -> NifResult<Term<'a>> {
    let native = match native.open() {
        Ok(native) => native,
        Err(error) => return Ok((atoms::error(), error).encode(env)),
    };
    if native.owner != Some(env.pid()) {
        return Err(rustler::Error::BadArg);
    }
    registry::set_default_loop(&native);
    Ok(atoms::ok().encode(env))
}

#[rustler::nif]
fn python_loop_forget_default(env: Env<'_>) -> Term<'_> {
    registry::forget_default_loop();
    atoms::ok().encode(env)
}

/// It accepts no more requests, cancels its tasks and ends. `ended`: it never had a request, and
/// has ended already.
#[rustler::nif]
fn python_loop_stop<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    let native = match native.open() {
        Ok(native) => native,
        Err(error) => return (atoms::error(), error).encode(env),
    };
    if native
        .assignment
        .as_ref()
        .is_some_and(|assignment| assignment.cancel())
    {
        native.close(Sender::Scheduler(env));
        return atoms::ended().encode(env);
    }
    if let Some(requests) = LoopRequests::of(&native) {
        requests.stop(&native);
    }
    atoms::ok().encode(env)
}

/// How many steps the thread of the loop has made so far, for all loops it runs: the number grows
/// as long as that thread is not stuck. `undefined`: it has no thread any more.
#[rustler::nif]
fn python_loop_steps<'a>(env: Env<'a>, native: Ref<LoopRef>) -> Term<'a> {
    let assignment = native
        .open()
        .ok()
        .and_then(|native| native.assignment.clone());
    match assignment.and_then(|assignment| assignment.steps()) {
        Some(steps) => steps.encode(env),
        None => atoms::undefined().encode(env),
    }
}

/// How many threads are started for loops before they share them.
#[rustler::nif]
fn python_loop_threads(env: Env<'_>, threads: usize) -> Term<'_> {
    placement::limit(threads);
    atoms::ok().encode(env)
}

/// How many loops each shared thread runs.
#[rustler::nif]
fn python_loop_runners() -> Vec<usize> {
    placement::shared()
}

/// `{ok, Queued, Waiting}` of the loop that `owner` started.
#[rustler::nif]
fn python_loop_of(env: Env<'_>, owner: LocalPid) -> Term<'_> {
    let native = registry::owned_by(&owner);
    match native.as_deref().and_then(LoopRequests::of) {
        Some(requests) => {
            let (queued, waiting) = (requests.queued_len(), requests.unanswered_len());
            (atoms::ok(), queued, waiting).encode(env)
        }
        None => (atoms::error(), atoms::loop_down()).encode(env),
    }
}

/// Of `count` loops of a tuple with their names, from `first` on and around its first `size`, the
/// one with the fewest requests, or the first that has none. 0: one of them is not up, or is not in
/// this process.
#[rustler::nif]
fn python_loop_least(
    env: Env<'_>,
    names: Term<'_>,
    first: usize,
    count: usize,
    size: usize,
) -> NifResult<usize> {
    let names = Elements::of(names).ok_or(rustler::Error::BadArg)?;
    if !(1..=size).contains(&first) || count > size || size > names.len() {
        return Err(rustler::Error::BadArg);
    }
    let places = (0..count).map(|nth| (first - 1 + nth) % size);
    let mut owners = Vec::with_capacity(count);
    for place in places.clone() {
        let name = names.get(place).ok_or(rustler::Error::BadArg)?;
        match env.whereis_pid(name.decode::<Atom>()?) {
            Some(pid) => owners.push(pid),
            None => return Ok(0),
        }
    }
    let Some(loops) = registry::owned_by_each(&owners) else {
        return Ok(0);
    };
    let (mut best, mut least) = (0, usize::MAX);
    for (place, native) in places.zip(&loops) {
        let Some(requests) = LoopRequests::of(native) else {
            return Ok(0);
        };
        let load = requests.unanswered_len();
        if load < least {
            (best, least) = (place + 1, load);
        }
        if load == 0 {
            break;
        }
    }
    Ok(best)
}

/// The processes that own a loop.
#[rustler::nif]
fn python_loop_owners() -> Vec<LocalPid> {
    registry::owners()
}
