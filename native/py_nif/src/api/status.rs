//! What runs now, for `py_status`: none of these functions waits for Python.

use event_loop::now_ns;
use rustler::{Encoder, Env, LocalPid, Term};

use super::watchdog::started;
use crate::asyncio::task_report;
use crate::atoms;
use crate::cpython::process::main_thread;
use crate::loops::registry;
use crate::requests::call_threads;
use crate::requests::on_loop::loop_requests::LoopRequests;

/// `[{Function, Caller, Milliseconds, Thread}]`: the calls that run on call threads.
#[rustler::nif]
fn status_calls(env: Env<'_>) -> Term<'_> {
    let now = now_ns();
    let calls: Vec<_> = (call_threads::running().iter())
        .map(|(request, thread)| {
            let (_, began) = request.runs_for();
            let age = now.saturating_sub(began) / 1_000_000;
            (&*request.name, request.origin.caller, age, *thread).encode(env)
        })
        .collect();
    calls.encode(env)
}

/// `[{Number, Owner | undefined, Thread, Queued, Unanswered, Milliseconds | none}]`: the loops that
/// Python threads run, and for how long each has been in its turn.
#[rustler::nif]
fn status_loops(env: Env<'_>) -> Term<'_> {
    let now = now_ns();
    let loops: Vec<_> = (registry::all().iter())
        .filter(|native| native.erlang_side().is_none() && !native.is_of_runner())
        .map(|native| {
            let owner: Option<LocalPid> = native.owner;
            let turn = match native.pulse.awake_for(now) {
                Some((_, awake)) => (awake / 1_000_000).encode(env),
                None => atoms::none().encode(env),
            };
            let owner = match owner {
                Some(pid) => pid.encode(env),
                None => atoms::undefined().encode(env),
            };
            // A loop that Python has started has no requests.
            let (queued, unanswered) = LoopRequests::of(native).map_or((0, 0), |requests| {
                (requests.queued_len(), requests.unanswered_len())
            });
            (
                native.id,
                owner,
                native.pulse.thread(),
                queued,
                unanswered,
                turn,
            )
                .encode(env)
        })
        .collect();
    loops.encode(env)
}

/// The caller receives `{py_tasks, Token, {ok, [{Number, [Task]}]} | {error, Exception}}` as soon as
/// a thread gets the GIL.
#[rustler::nif]
fn status_tasks(env: Env<'_>, token: i64) -> Term<'_> {
    match main_thread::is_ready() {
        true => started(env, task_report::send(env.pid(), token)),
        false => (atoms::error(), atoms::not_started()).encode(env),
    }
}
