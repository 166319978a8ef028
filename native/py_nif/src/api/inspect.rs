//! For `py_inspect`: what loops, call threads and streams are doing. All of it is read without the
//! GIL and without any thread's cooperation, except for tasks, which the loop's own thread lists.

use event_loop::now_ns;
use rustler::{Encoder, Env, LocalPid, NifMap, Term};

use crate::atoms;
use crate::http::numbers;
use crate::loops::{NativeLoop, registry};
use crate::requests::call_threads;
use crate::requests::on_loop::loop_requests::LoopRequests;
use crate::requests::plain_streams;
use crate::requests::request::StreamReading;

/// Times are in nanoseconds.
#[derive(NifMap)]
struct LoopReading<'a> {
    id: u64,
    owner: Term<'a>,
    keeper: Term<'a>,
    kind: Term<'a>,
    thread: u64,
    in_turn: Term<'a>,
    turns: u64,
    longest: u64,
    busy: u64,
    busy_share: Term<'a>,
    histogram: Vec<u64>,
    ready: u64,
    timers: u64,
    fds: usize,
    queued: usize,
    unanswered: usize,
    max_queued: Term<'a>,
    max_unanswered: Term<'a>,
    gil_waited: u64,
    gil_longest: u64,
    counters: Term<'a>,
}

/// The loop of this number; 0: all loops.
#[rustler::nif]
fn inspect_loops(env: Env<'_>, id: u64) -> Vec<Term<'_>> {
    let loops = match id {
        0 => registry::all(),
        id => registry::get(id).into_iter().collect(),
    };
    let now = now_ns();
    (loops.iter())
        .filter(|native| !native.is_of_runner())
        .map(|native| read(env, native, now).encode(env))
        .collect()
}

fn read<'a>(env: Env<'a>, native: &NativeLoop, now: u64) -> LoopReading<'a> {
    let turns = native.pulse.read();
    let load = native.pulse.load.read();
    let side = native.erlang_side().map(|side| side.timers.live_len());
    let kind = match side {
        Some(_) => atoms::erlang(),
        None => atoms::python(),
    };
    let counters: Vec<(Term<'a>, Term<'a>)> = (native.core.counters.snapshot().iter())
        .filter_map(|(name, number)| {
            let name = rustler::Atom::from_str(env, name).ok()?;
            Some((name.encode(env), number.encode(env)))
        })
        .collect();
    // A loop that Python has started has no requests.
    let requests = LoopRequests::of(native);
    let busy_share = (native.assignment.as_ref()).and_then(|assignment| assignment.busy(now));
    LoopReading {
        id: native.id,
        owner: or_undefined(env, native.owner),
        keeper: or_undefined(env, native.keeper_pid()),
        kind: kind.encode(env),
        thread: native.pulse.thread(),
        in_turn: or_undefined(env, native.pulse.awake_for(now).map(|(_, time)| time)),
        turns: turns.turns,
        longest: turns.longest,
        busy: turns.total,
        busy_share: or_undefined(env, busy_share),
        histogram: turns.histogram,
        ready: load.ready,
        timers: side.map_or(load.timers, |timers| timers as u64),
        fds: native.core.watched_len(),
        queued: requests.map_or(0, LoopRequests::queued_len),
        unanswered: requests.map_or(0, LoopRequests::unanswered_len),
        max_queued: or_undefined(env, requests.map(|requests| requests.limits.queue)),
        max_unanswered: or_undefined(env, requests.map(|requests| requests.limits.unanswered)),
        gil_waited: load.gil_waited,
        gil_longest: load.gil_longest,
        counters: Term::map_from_pairs(env, &counters).unwrap_or_else(|_| Term::map_new(env)),
    }
}

fn or_undefined<'a>(env: Env<'a>, value: Option<impl Encoder>) -> Term<'a> {
    match value {
        Some(value) => value.encode(env),
        None => atoms::undefined().encode(env),
    }
}

/// The number of the loop that `owner` started.
#[rustler::nif]
fn inspect_loop_of(env: Env<'_>, owner: LocalPid) -> Term<'_> {
    or_undefined(env, registry::owned_by(&owner).map(|native| native.id))
}

/// The caller gets `{py_task_list, Token}` when the loop has listed its tasks. `never`: it has not run
/// yet, and so has none.
#[rustler::nif]
fn inspect_list_tasks(env: Env<'_>, id: u64, token: i64) -> Term<'_> {
    match registry::get(id) {
        None => atoms::closed(),
        Some(native) if native.pulse.thread() == 0 => atoms::never(),
        Some(native) => {
            native.list_tasks(env.pid(), token);
            atoms::ok()
        }
    }
    .encode(env)
}

/// As `inspect_list_tasks`, of which it gets the message, for a loop that does not reply: another
/// thread lists the tasks, if it gets the GIL.
#[rustler::nif]
fn inspect_list_from_outside(env: Env<'_>, id: u64) -> Term<'_> {
    let started = registry::get(id).map(|native| native.list_tasks_from_outside());
    match started {
        Some(Ok(())) => atoms::ok().encode(env),
        // The last list has to do.
        Some(Err(_)) | None => atoms::closed().encode(env),
    }
}

/// `{Age, {Total, Tasks}}`, or `undefined`: the tasks were never listed.
#[rustler::nif]
fn inspect_last_tasks(env: Env<'_>, id: u64) -> Term<'_> {
    let native = registry::get(id);
    or_undefined(env, native.and_then(|native| native.task_list.last(env)))
}

/// `{Loop, Connections, Active, Served, [Responses]}` of each ASGI server, responses by the first digit of
/// their status.
#[rustler::nif]
fn inspect_asgi() -> Vec<numbers::Reading> {
    numbers::readings()
}

/// `{Id, Name, Caller | undefined, Nanoseconds, Thread, IsOutside, IsAbandoned}` of each call that runs.
#[rustler::nif]
fn inspect_calls(env: Env<'_>) -> Vec<Term<'_>> {
    let now = now_ns();
    (call_threads::occupied().iter())
        .map(|(request, thread, is_outside)| {
            let (_, began) = request.runs_for();
            let caller = request.origin.caller;
            let time = now.saturating_sub(began);
            let is_left = request.is_left();
            (
                request.id,
                &*request.name,
                caller,
                time,
                *thread,
                *is_outside,
                is_left,
            )
                .encode(env)
        })
        .collect()
}

/// `{Id, Name, Caller, Consumer, Loop | undefined, Nanoseconds, {Sent, Demand, Waits, WaitedNanoseconds}}` of each open
/// stream.
#[rustler::nif]
fn inspect_streams(env: Env<'_>) -> Vec<Term<'_>> {
    let now = now_ns();
    let of_loops = registry::all()
        .into_iter()
        .flat_map(|native| LoopRequests::of(&native).map_or(Vec::new(), LoopRequests::streams));
    let of_threads = call_threads::occupied()
        .into_iter()
        .map(|(request, ..)| request)
        .filter(|request| request.is_stream);
    let mut found: Vec<_> = of_loops
        .chain(of_threads)
        .chain(plain_streams::waiting())
        .collect();
    found.sort_unstable_by_key(|request| request.id);
    found.dedup_by_key(|request| request.id);
    (found.iter())
        .filter_map(|request| {
            let StreamReading {
                to,
                credit,
                waits,
                waits_since,
                sent,
                began,
                on_loop,
            } = request.stream_reading()?;
            let on_loop = or_undefined(env, on_loop);
            let time = now.saturating_sub(began);
            let waited = match waits {
                true => now.saturating_sub(waits_since),
                false => 0,
            };
            let flow = (sent, credit, waits, waited);
            let caller = request.origin.caller;
            Some((request.id, &*request.name, caller, to, on_loop, time, flow).encode(env))
        })
        .collect()
}
