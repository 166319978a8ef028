//! The interpreter: start it, run a function on its main thread. Answers come as messages
//! `{py_main, Token, Result}`, because Python may take its time and a scheduler thread never
//! waits for it.

use std::ffi::CString;

use rustler::{Binary, Decoder, Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::{self, Sender};
use crate::error::Error;
use crate::python::{main_thread, Settings};

/// Starts Python unless it is up; `{py_main, Token, ok | {error, Text}}` tells when it is.
#[rustler::nif]
fn python_start<'a>(
    env: Env<'a>,
    token: i64,
    executable: Binary<'a>,
    paths: Term<'a>,
) -> NifResult<Term<'a>> {
    let paths = list(paths)?;
    let settings = Settings {
        executable: CString::new(executable.as_slice()).map_err(|_| rustler::Error::BadArg)?,
        paths,
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

/// Starts Python with this command line (first its name) on its main thread. The process ends
/// with the program.
#[rustler::nif]
fn python_command<'a>(
    env: Env<'a>,
    executable: Binary<'a>,
    paths: Term<'a>,
    arguments: Term<'a>,
) -> NifResult<Term<'a>> {
    let text = |bytes: &Binary| CString::new(bytes.as_slice()).map_err(|_| rustler::Error::BadArg);
    let settings = Settings {
        executable: text(&executable)?,
        paths: list(paths)?,
    };
    let arguments: Vec<Binary> = list(arguments)?;
    let arguments = arguments.iter().map(text).collect::<NifResult<Vec<_>>>()?;
    Ok(match main_thread::start_command(settings, arguments) {
        Ok(()) => atoms::ok().encode(env),
        Err(why) => (atoms::error(), Error::Python(why)).encode(env),
    })
}

/// Calls `module.function(*arguments)` on Python's main thread, after the calls before it;
/// `{py_main, Token, {ok, Integer | Binary | undefined} | {error, Traceback}}` is the answer.
#[rustler::nif]
fn python_main<'a>(
    env: Env<'a>,
    token: i64,
    module: String,
    function: String,
    arguments: Term<'a>,
) -> NifResult<Term<'a>> {
    let arguments: Vec<String> = list(arguments)?;
    let caller = env.pid();
    let posted =
        main_thread::post(
            move |py| match main_thread::call(py, &module, &function, &arguments) {
                Ok(value) => reply(&caller, token, (atoms::ok(), value)),
                Err(why) => reply(&caller, token, (atoms::error(), Error::Python(why))),
            },
        );
    Ok(match posted {
        true => atoms::ok().encode(env),
        false => (atoms::error(), atoms::occupied()).encode(env),
    })
}

/// rustler's own decoder panics at an improper list; asking for its length raises `badarg`.
fn list<'a, T: Decoder<'a>>(term: Term<'a>) -> NifResult<Vec<T>> {
    term.list_length()?;
    term.decode()
}

/// Whether Python is up (or coming up).
#[rustler::nif]
fn python_running() -> bool {
    main_thread::is_up()
}

fn reply(caller: &LocalPid, token: i64, result: impl Encoder) {
    // A caller that died needs no answer.
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
