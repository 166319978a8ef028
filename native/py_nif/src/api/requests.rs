//! Requests: submit one, cancel it.

use rustler::{Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::convert::Returned;
use crate::cpython::process::main_thread;
use crate::loops::registry;
use crate::questions::chain;
use crate::requests::call::{Call, Code};
use crate::requests::call_threads;
use crate::requests::call_threads::{QueuedCall, interrupts};
use crate::requests::ledger::{Entry, Ledger};
use crate::requests::on_loop::loop_requests;
use crate::requests::on_loop::loop_requests::{LoopMessage, Refused};
use crate::requests::options::CallOptions;
use crate::requests::reports;
use crate::requests::request::{ReplyTo, Request};

/// `target` is the process of a loop, or `default`: a call thread, and the default loop for
/// awaitables. `leader` is the group leader of the caller.
#[rustler::nif]
fn request_submit<'a>(
    env: Env<'a>,
    token: Term<'a>,
    target: Term<'a>,
    call: Term<'a>,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let reply_to = match token.is_atom() {
        true => ReplyTo::NoProcess,
        false => ReplyTo::Caller(token),
    };
    submit(env, target, call, reply_to, leader, None)
}

/// As `request_submit`, for a process that waits for the reply from now on. It calls `request_monitor` if
/// that takes a while.
#[rustler::nif]
fn request_submit_unmonitored<'a>(
    env: Env<'a>,
    token: Term<'a>,
    target: Term<'a>,
    call: Term<'a>,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    submit(
        env,
        target,
        call,
        ReplyTo::WaitingCaller(token),
        leader,
        None,
    )
}

/// As `request_submit_unmonitored`, with the request's number in the ledger of its origin.
#[rustler::nif]
fn request_submit_recorded<'a>(
    env: Env<'a>,
    token: Term<'a>,
    target: Term<'a>,
    call: Term<'a>,
    leader: Term<'a>,
    ledger: Ref<Ledger>,
    number: u64,
) -> NifResult<Term<'a>> {
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let reply_to = ReplyTo::WaitingCaller(token);
    let entry = Entry { ledger, number };
    submit(env, target, call, reply_to, leader, Some(entry))
}

/// From now on the death of the process that waits for the reply abandons the request.
#[rustler::nif]
fn request_monitor<'a>(env: Env<'a>, request: Ref<Request>) -> Term<'a> {
    request.monitor_caller(Sender::Scheduler(env));
    atoms::ok().encode(env)
}

/// The process `to` gets the items, the first `demand` of them without asking for more.
#[rustler::nif]
fn stream_submit<'a>(
    env: Env<'a>,
    target: Term<'a>,
    call: Term<'a>,
    to: LocalPid,
    demand: u64,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    submit(
        env,
        target,
        call,
        ReplyTo::Consumer(to, demand),
        leader,
        None,
    )
}

fn submit<'a>(
    env: Env<'a>,
    target: Term<'a>,
    call: Term<'a>,
    reply_to: ReplyTo<'a>,
    leader: Term<'a>,
    entry: Option<Entry>,
) -> NifResult<Term<'a>> {
    let home = match target.is_atom() {
        true => None,
        false => match registry::owned_by(&target.decode()?) {
            Some(native) => Some(native),
            None => return Ok((atoms::error(), atoms::loop_down()).encode(env)),
        },
    };
    if home.is_none() && !registry::has_default_loop() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let (options, call) = CallOptions::split(call)?;
    if options.result.returned == Returned::Each && matches!(reply_to, ReplyTo::Consumer(..)) {
        return Err(rustler::Error::BadArg);
    }
    let waits = matches!(reply_to, ReplyTo::WaitingCaller(_));
    let Some(call) = Call::decode(env, call, options, reply_to, leader)? else {
        return Ok((atoms::error(), atoms::not_alive()).encode(env));
    };
    if let Some(entry) = entry {
        call.request.record_in(entry);
    }
    let to_loop = match &call.code {
        Code::Function(function) => home.is_some() || function.is_coroutine(),
        _ => false,
    };
    let request = call.request.clone();
    let refused = match to_loop {
        true => {
            let Some(native) = home.or_else(registry::default_loop) else {
                request.abandon(Sender::Scheduler(env));
                return Ok((atoms::error(), atoms::not_started()).encode(env));
            };
            match chain::blocks(call.question.as_ref(), &native) {
                true => Err(Refused::Deadlock),
                false => loop_requests::post(&native, &request, LoopMessage::Run(call))
                    .map_err(|(why, _)| why),
            }
        }
        false => {
            if waits {
                reports::unmonitored(Sender::Scheduler(env));
            }
            call_threads::post(QueuedCall::Call { call, home })
        }
    };
    Ok(submitted(env, request, refused))
}

fn submitted(env: Env<'_>, request: Ref<Request>, refused: Result<(), Refused>) -> Term<'_> {
    match refused {
        // A loop that ends at this moment may have replied already.
        Err(why) if request.abandon(Sender::Scheduler(env)) => {
            (atoms::error(), why.atom()).encode(env)
        }
        _ => (atoms::ok(), request).encode(env),
    }
}

/// `done`: the reply is in the caller's mailbox; `ok`: none will come.
#[rustler::nif]
fn request_abandon<'a>(env: Env<'a>, request: Ref<Request>) -> Term<'a> {
    match request.abandon(Sender::Scheduler(env)) {
        true => atoms::ok().encode(env),
        false => atoms::done().encode(env),
    }
}

#[rustler::nif]
fn request_cancel<'a>(env: Env<'a>, request: Ref<Request>) -> Term<'a> {
    request.cancel(Sender::Scheduler(env));
    atoms::ok().encode(env)
}

/// `demand` more items are wanted.
#[rustler::nif]
fn stream_demand<'a>(env: Env<'a>, stream: Ref<Request>, demand: u64) -> NifResult<Term<'a>> {
    if !stream.is_stream || demand == 0 {
        return Err(rustler::Error::BadArg);
    }
    stream.demand(demand);
    Ok(atoms::ok().encode(env))
}

/// `taken`: nothing will come any more; `ok`: its consumer, which is not the caller, is notified.
#[rustler::nif]
fn stream_cancel<'a>(env: Env<'a>, stream: Ref<Request>) -> NifResult<Term<'a>> {
    if !stream.is_stream {
        return Err(rustler::Error::BadArg);
    }
    let sender = Sender::Scheduler(env);
    Ok(match stream.is_for(&env.pid()) {
        true => {
            stream.abandon(sender);
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
fn request_is_open(request: Ref<Request>) -> bool {
    request.is_wanted()
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
        .map_put(atoms::ended(), info.ended)?
        .map_put(atoms::abandoned(), info.abandoned)
}

/// Monitors the callers of the calls that run on call threads. `True`: later calls are reported.
#[rustler::nif]
fn calls_monitor(env: Env<'_>, report_later: bool) -> Term<'_> {
    if report_later {
        reports::checks_callers();
    }
    call_threads::monitor_callers(Sender::Scheduler(env));
    atoms::ok().encode(env)
}

/// Python's number for the thread that runs this request; `none` if no call thread does.
#[rustler::nif]
fn calls_thread(env: Env<'_>, id: u64) -> Term<'_> {
    let running = call_threads::running();
    match running.iter().find(|(request, _)| request.id == id) {
        Some((_, thread)) => thread.encode(env),
        None => atoms::none().encode(env),
    }
}

/// Interrupts this request again, if it still runs without a caller on a call thread.
#[rustler::nif]
fn calls_interrupt(env: Env<'_>, id: u64) -> Term<'_> {
    let running = call_threads::running();
    let runs = running
        .iter()
        .any(|(request, _)| request.id == id && request.is_left());
    if runs {
        interrupts::again(id);
    }
    atoms::ok().encode(env)
}
