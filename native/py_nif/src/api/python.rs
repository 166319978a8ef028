//! The interpreter: start it, run a function on its main thread. Results arrive as messages
//! `{py_main, Token, Result}`, because Python may take long and a scheduler thread never waits for
//! it.

use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use rustler::{Binary, Encoder, Env, LocalPid, NifResult, OwnedEnv, Term};

use crate::asyncio::origin;
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::terms::decode_list;
use crate::convert;
use crate::cpython::process::interpreter::Settings;
use crate::cpython::process::{forked, main_thread, process_end};
use crate::error::Error;
use crate::loops::Origin;
use crate::native_module;
use crate::output::lines;

/// Starts Python unless it runs; `{py_main, Token, ok | {error, Text}}` reports the result.
#[rustler::nif]
fn python_start<'a>(
    env: Env<'a>,
    token: i64,
    executable: Binary<'a>,
    paths: Term<'a>,
    switch_interval: Term<'a>,
    default_event_loop: bool,
    faulthandler: bool,
) -> NifResult<Term<'a>> {
    let settings = Settings {
        default_event_loop,
        faulthandler,
        ..settings(executable, paths, switch_interval)?
    };
    let caller = env.pid();
    let started = main_thread::start(settings, move |result| match result {
        Ok(()) => reply(&caller, token, atoms::ok()),
        Err(why) => reply(&caller, token, (atoms::error(), Error::Python(why))),
    });
    Ok(match started {
        Ok(()) => atoms::ok().encode(env),
        Err(why) => (atoms::error(), Error::Python(why)).encode(env),
    })
}

/// Starts Python with this command line (first its name) on its main thread. The process ends with
/// the program.
#[rustler::nif]
fn python_command<'a>(
    env: Env<'a>,
    executable: Binary<'a>,
    paths: Term<'a>,
    switch_interval: Term<'a>,
    arguments: Term<'a>,
) -> NifResult<Term<'a>> {
    let settings = Settings {
        // The only difference from python.
        default_event_loop: true,
        ..settings(executable, paths, switch_interval)?
    };
    let arguments: Vec<Binary> = decode_list(arguments)?;
    let arguments = arguments.into_iter().map(text).collect::<NifResult<_>>()?;
    Ok(match main_thread::start_command(settings, arguments) {
        Ok(()) => atoms::ok().encode(env),
        Err(why) => (atoms::error(), Error::Python(why)).encode(env),
    })
}

/// Calls `module.function(*arguments)` on Python's main thread, after earlier calls; the result is
/// `{py_main, Token, {ok, Integer | Binary | undefined} | {error, Traceback}}`.
#[rustler::nif]
fn python_main<'a>(
    env: Env<'a>,
    token: i64,
    module: String,
    function: String,
    arguments: Term<'a>,
    leader: Term<'a>,
) -> NifResult<Term<'a>> {
    let arguments: Vec<String> = decode_list(arguments)?;
    let caller = env.pid();
    let asked = Origin::new(env, leader);
    let posted = main_thread::post(move |py| {
        let called = catch_unwind(AssertUnwindSafe(|| {
            origin::within(py, &asked, || {
                main_thread::call(py, &module, &function, &arguments)
            })
        }));
        lines::end(&asked.target());
        match called.unwrap_or_else(|panic| Err(panic_text(&*panic))) {
            Ok(value) => reply(&caller, token, (atoms::ok(), value)),
            Err(why) => reply(&caller, token, (atoms::error(), Error::Python(why))),
        }
    });
    Ok(match posted {
        true => atoms::ok().encode(env),
        false => (atoms::error(), atoms::occupied()).encode(env),
    })
}

/// Converts a term to Python and back, on Python's main thread; the result is `{py_main, Token,
/// {ok, Term} | {error, Exception}}`.
#[rustler::nif]
fn python_echo<'a>(env: Env<'a>, token: i64, term: Term<'a>) -> Term<'a> {
    let terms = OwnedEnv::new();
    let saved = terms.save(term);
    on_main_thread(env, token, move |py, env| {
        let value = terms.run(|env| convert::to_python(py, saved.load(env)))?;
        Ok(convert::to_term(env, &value)?)
    })
}

/// Evaluates an expression in `__main__`, on Python's main thread, with the entries of a map as its
/// local names; the result is as for `python_echo`.
#[rustler::nif]
fn python_eval<'a>(
    env: Env<'a>,
    token: i64,
    source: Binary<'a>,
    names: Term<'a>,
) -> NifResult<Term<'a>> {
    let source = CString::new(source.as_slice()).map_err(|_| rustler::Error::BadArg)?;
    if !names.is_map() {
        return Err(rustler::Error::BadArg);
    }
    let terms = OwnedEnv::new();
    let names = terms.save(names);
    Ok(on_main_thread(env, token, move |py, env| {
        let names = terms.run(|env| convert::to_python(py, names.load(env)))?;
        Ok(convert::to_term(
            env,
            &main_thread::eval(py, &source, &names)?,
        )?)
    }))
}

/// As `python_eval`, with the `erlang.Error` of this exception as `error`.
#[rustler::nif]
fn python_eval_error<'a>(
    env: Env<'a>,
    token: i64,
    source: Binary<'a>,
    class: Term<'a>,
    reason: Term<'a>,
    stacktrace: Term<'a>,
) -> NifResult<Term<'a>> {
    let source = CString::new(source.as_slice()).map_err(|_| rustler::Error::BadArg)?;
    let class = class.atom_to_string()?;
    let terms = OwnedEnv::new();
    let (reason, stacktrace) = (terms.save(reason), terms.save(stacktrace));
    Ok(on_main_thread(env, token, move |py, env| {
        let error = terms.run(|env| {
            convert::exception::from_erlang(py, &class, reason.load(env), stacktrace.load(env))
        });
        let names = [("error", error.into_value(py))]
            .into_py_dict(py)?
            .into_any();
        Ok(convert::to_term(
            env,
            &main_thread::eval(py, &source, &names)?,
        )?)
    }))
}

/// Calls `work` there to create the result in an environment that is then sent.
fn on_main_thread<'a>(
    env: Env<'a>,
    token: i64,
    work: impl for<'b> FnOnce(Python<'_>, Env<'b>) -> PyResult<Term<'b>> + Send + 'static,
) -> Term<'a> {
    let caller = env.pid();
    let posted = main_thread::post(move |py| {
        // A caller that has died needs no result.
        let _ = OwnedEnv::new().send_and_clear(&caller, |env| {
            let worked = catch_unwind(AssertUnwindSafe(|| {
                let made = work(py, env);
                // The node sends the result, not its copy.
                forked::end_if_copy(py, &made);
                made
            }));
            let result = match worked {
                Ok(Ok(term)) => (atoms::ok(), term).encode(env),
                Ok(Err(error)) => {
                    (atoms::error(), convert::exception::to_term(env, py, &error)).encode(env)
                }
                Err(panic) => (atoms::error(), Error::Python(panic_text(&*panic))).encode(env),
            };
            (atoms::py_main(), token, result)
        });
    });
    match posted {
        true => atoms::ok().encode(env),
        false => (atoms::error(), atoms::occupied()).encode(env),
    }
}

/// `switch_interval`: seconds, or `undefined`.
fn settings<'a>(
    executable: Binary<'a>,
    paths: Term<'a>,
    switch_interval: Term<'a>,
) -> NifResult<Settings> {
    let switch_interval = match switch_interval.decode::<f64>() {
        Ok(seconds) if seconds > 0.0 => Some(seconds),
        Err(_) if atoms::undefined() == switch_interval => None,
        _ => return Err(rustler::Error::BadArg),
    };
    Ok(Settings {
        install: native_module::install,
        executable: text(executable)?,
        paths: decode_list(paths)?,
        switch_interval,
        default_event_loop: false,
        faulthandler: false,
    })
}

fn text(bytes: Binary<'_>) -> NifResult<CString> {
    CString::new(bytes.as_slice()).map_err(|_| rustler::Error::BadArg)
}

/// Sets the limits of values that cross: bytes of an integer, parts, new atoms.
#[rustler::nif]
fn value_limits(env: Env<'_>, integer_bytes: usize, parts: usize, new_atoms: usize) -> Term<'_> {
    convert::limits::set(integer_bytes, parts, new_atoms);
    atoms::ok().encode(env)
}

/// The setting `none`: what `None` becomes.
#[rustler::nif]
fn value_none<'a>(env: Env<'a>, none: Term<'a>) -> NifResult<Term<'a>> {
    let none = convert::Nothing::of(none).ok_or(rustler::Error::BadArg)?;
    none.set_for_node();
    Ok(atoms::ok().encode(env))
}

/// Whether Python is running or starting.
#[rustler::nif]
fn python_running() -> bool {
    main_thread::is_up()
}

/// Whether Python ends with the process, as `erlang_loop_end` does it, and how many milliseconds
/// that may take; `undefined`: it does not.
#[rustler::nif]
fn python_end_at_exit<'a>(env: Env<'a>, timeout: Term<'a>) -> NifResult<Term<'a>> {
    let timeout = match timeout.decode::<u32>() {
        Ok(ms) => Some(Duration::from_millis(ms.into())),
        Err(_) if atoms::infinity() == timeout => Some(Duration::MAX),
        Err(_) if atoms::undefined() == timeout => None,
        Err(_) => return Err(rustler::Error::BadArg),
    };
    process_end::at_exit(timeout);
    Ok(atoms::ok().encode(env))
}

/// A panic in native code, even one that passed through Python code, must not leave its caller
/// without a reply.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a panic in native code: {}", text.unwrap_or("unknown"))
}

fn reply(caller: &LocalPid, token: i64, result: impl Encoder) {
    // A caller that has died needs no result.
    let _ = message::send(Sender::Thread, caller, (atoms::py_main(), token, result));
}

impl Encoder for main_thread::Value {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        match self {
            main_thread::Value::None => atoms::undefined().encode(env),
            main_thread::Value::Int(number) => number.encode(env),
            main_thread::Value::Text(text) => text.encode(env),
        }
    }
}
