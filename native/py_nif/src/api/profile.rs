//! For `py_inspect:profile/2` and `py_recorder`: the stacks of threads that run, and what loops did
//! last. Nothing here waits for the GIL.

use std::time::Duration;

use event_loop::now_ns;
use rustler::{Encoder, Env, Term};

use super::watchdog::started;
use crate::atoms;
use crate::beam::terms::decode_list;
use crate::cpython::process::main_thread;
use crate::cpython::sampling::Frame;
use crate::loops::recorder::Kind;
use crate::loops::registry;
use crate::requests::{functions, profile};

/// An hour.
const LONGEST_MS: u64 = 3_600_000;

/// The caller receives `{py_profile, Token, {ok, {Frames, Stacks, Samples, Counts}} | {error,
/// unsupported}}`. `loops`: their numbers, or `all`.
#[rustler::nif]
fn profile_start<'a>(
    env: Env<'a>,
    token: i64,
    loops: Term<'a>,
    calls: bool,
    duration_ms: u64,
    interval_us: u64,
) -> rustler::NifResult<Term<'a>> {
    let loops = match atoms::all() == loops {
        true => None,
        false => Some(decode_list(loops)?),
    };
    if duration_ms > LONGEST_MS {
        return Err(rustler::Error::BadArg);
    }
    if !main_thread::is_ready() {
        return Ok((atoms::error(), atoms::not_started()).encode(env));
    }
    let times = profile::Times {
        duration: Duration::from_millis(duration_ms),
        interval: Duration::from_micros(interval_us.clamp(100, 10_000_000)),
    };
    let threads = profile::Threads { loops, calls };
    Ok(started(
        env,
        profile::start(env.pid(), token, threads, times),
    ))
}

/// `{Now, [{Time, Kind, Value}], [{Turn, Began, Lasted, Stack}]}` of the loop, or `undefined`; times
/// in nanoseconds, of the same clock as `Now`.
#[rustler::nif]
fn recorder_read(env: Env<'_>, id: u64) -> Term<'_> {
    let Some(native) = registry::get(id) else {
        return atoms::undefined().encode(env);
    };
    let events: Vec<_> = (native.recorder.events().into_iter())
        .map(|(time, kind, value)| (time, atom(kind), value).encode(env))
        .collect();
    let slow: Vec<_> = (native.recorder.slow().iter())
        .map(|one| (one.turn, one.began, one.lasted, frames(env, &one.stack)).encode(env))
        .collect();
    (now_ns(), events, slow).encode(env)
}

fn frames<'a>(env: Env<'a>, stack: &[Frame]) -> Vec<Term<'a>> {
    (stack.iter())
        .map(|one| (&*one.function, &*one.file, one.line).encode(env))
        .collect()
}

fn atom(kind: Kind) -> rustler::Atom {
    match kind {
        Kind::Turn => atoms::turn(),
        Kind::GilWait => atoms::gil_wait(),
        Kind::Fd => atoms::fd(),
        Kind::Timers => atoms::timers(),
        Kind::RequestIn => atoms::request_in(),
        Kind::RequestOut => atoms::request_out(),
        Kind::Cancel => atoms::request_cancel(),
    }
}

/// `{Name, Count, TotalNs, P99Ns, LongestNs}` of each function whose calls took at least 0.1 ms.
#[rustler::nif]
fn inspect_functions(env: Env<'_>) -> Vec<Term<'_>> {
    functions::each(|name, times| {
        let p99 = times.p99_ns();
        (name, times.count, times.total_ns, p99, times.longest_ns).encode(env)
    })
}
