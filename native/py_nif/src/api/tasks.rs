//! Requests: submit one, cancel it.

use rustler::{Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::cpython::process::main_thread;
use crate::loops::{Refused, Work, registry};
use crate::questions::chain;
use crate::requests::call_threads;
use crate::requests::call_threads::Job;
use crate::requests::reports;
use crate::requests::request::{Request, What};
use crate::requests::task::{Asker, Task};
use crate::runners::start;

/// `target` is the process of a loop, or `default`: a call thread, and the default loop for
/// awaitables. `leader` is the group leader of the caller.
#[rustler::nif]
fn task_submit<'a>(
    env: Env<'a>,
    token: Term<'a>,
    target: Term<'a>,
    what: Term<'a>,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let asker = match token.is_atom() {
        true => Asker::Nobody,
        false => Asker::Caller(token),
    };
    submit(env, target, what, asker, leader)
}

/// As `task_submit`, for a process that waits for the reply from now on. It calls `task_watch` if
/// that takes a while.
#[rustler::nif]
fn task_ask<'a>(
    env: Env<'a>,
    token: Term<'a>,
    target: Term<'a>,
    what: Term<'a>,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    submit(env, target, what, Asker::Waiting(token), leader)
}

/// From now on the death of the process that waits for the reply gives the task up.
#[rustler::nif]
fn task_watch<'a>(env: Env<'a>, task: Ref<Task>) -> Term<'a> {
    task.watch(Sender::Scheduler(env));
    atoms::ok().encode(env)
}

/// The process `to` gets the items, the first `demand` of them without asking for more.
#[rustler::nif]
fn stream_submit<'a>(
    env: Env<'a>,
    target: Term<'a>,
    what: Term<'a>,
    to: LocalPid,
    demand: u64,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    submit(env, target, what, Asker::Consumer(to, demand), leader)
}

fn submit<'a>(
    env: Env<'a>,
    target: Term<'a>,
    what: Term<'a>,
    asker: Asker<'a>,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    let home = match target.is_atom() {
        true => None,
        false => match registry::owned_by(&target.decode()?) {
            Some(native) => Some(native),
            None => return Ok((atoms::error(), atoms::loop_down()).encode(env)),
        },
    };
    if home.is_none() && !start::has_default_loop() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let Some(request) = Request::decode(env, what, asker, leader)? else {
        return Ok((atoms::error(), atoms::not_alive()).encode(env));
    };
    let to_loop = match &request.what {
        What::Call(function) => home.is_some() || function.is_coroutine(),
        _ => false,
    };
    let task = request.task.clone();
    let refused = match to_loop {
        true => {
            let Some(native) = home.or_else(start::default_loop) else {
                task.give_up(Sender::Scheduler(env));
                return Ok((atoms::error(), atoms::not_started()).encode(env));
            };
            match chain::blocks(request.asked_for.as_ref(), &native) {
                true => Err(Refused::Deadlock),
                false => native
                    .post(&task, Work::Run(request))
                    .map_err(|(why, _)| why),
            }
        }
        false => call_threads::post(Job::Call { request, home }),
    };
    Ok(submitted(env, task, refused))
}

fn submitted(env: Env<'_>, task: Ref<Task>, refused: Result<(), Refused>) -> Term<'_> {
    match refused {
        // A loop that ends at this moment may have replied already.
        Err(why) if task.give_up(Sender::Scheduler(env)) => {
            (atoms::error(), why.atom()).encode(env)
        }
        _ => (atoms::ok(), task).encode(env),
    }
}

/// `done`: the reply is in the caller's mailbox; `ok`: none will come.
#[rustler::nif]
fn task_give_up<'a>(env: Env<'a>, task: Ref<Task>) -> Term<'a> {
    match task.give_up(Sender::Scheduler(env)) {
        true => atoms::ok().encode(env),
        false => atoms::done().encode(env),
    }
}

#[rustler::nif]
fn task_cancel<'a>(env: Env<'a>, task: Ref<Task>) -> Term<'a> {
    task.cancel(Sender::Scheduler(env));
    atoms::ok().encode(env)
}

/// `demand` more items are wanted.
#[rustler::nif]
fn stream_demand<'a>(env: Env<'a>, stream: Ref<Task>, demand: u64) -> NifResult<Term<'a>> {
    if !stream.is_stream || demand == 0 {
        return Err(rustler::Error::BadArg);
    }
    stream.demand(demand);
    Ok(atoms::ok().encode(env))
}

/// `taken`: nothing will come any more; `ok`: its consumer, which is not the caller, is notified.
#[rustler::nif]
fn stream_cancel<'a>(env: Env<'a>, stream: Ref<Task>) -> NifResult<Term<'a>> {
    if !stream.is_stream {
        return Err(rustler::Error::BadArg);
    }
    let sender = Sender::Scheduler(env);
    Ok(match stream.is_for(&env.pid()) {
        true => {
            stream.give_up(sender);
            atoms::taken().encode(env)
        }
        false => {
            stream.cancel(sender);
            atoms::ok().encode(env)
        }
    })
}

/// Whether a reply may still come.
#[rustler::nif]
fn task_is_open(task: Ref<Task>) -> bool {
    task.is_wanted()
}

/// The calling process receives reports of code that outlives its caller.
#[rustler::nif]
fn calls_started(
    env: Env<'_>,
    pid: LocalPid,
    max_threads: usize,
    max_queue: usize,
    max_outside: usize,
) -> Term<'_> {
    reports::listen(pid);
    call_threads::limit(max_threads, max_queue, max_outside);
    atoms::ok().encode(env)
}

#[rustler::nif]
fn calls_info(env: Env<'_>) -> NifResult<Term<'_>> {
    let info = call_threads::info();
    Term::map_new(env)
        .map_put(atoms::threads(), info.threads)?
        .map_put(atoms::idle(), info.idle)?
        .map_put(atoms::queued(), info.queued)?
        .map_put(atoms::ended(), info.ended)
}
