//! The tasks of all loops as a message, for `py:status/0`.

use std::thread;

use pyo3::prelude::*;
use rustler::LocalPid;

use crate::atoms;
use crate::beam::own_env::OwnEnv;
use crate::convert::ResultOptions;
use crate::convert::named;

/// Sends `to` what `erlang_loop.tasks.of_all_loops()` returns, as `{py_tasks, Token, Result}`. A
/// thread of its own waits for the GIL, as long as that takes.
pub fn send(to: LocalPid, token: i64) -> std::io::Result<()> {
    thread::Builder::new()
        .name("python-tasks".to_owned())
        // Skipped if Python has ended.
        .spawn(move || Python::try_attach(|py| report(py, &to, token)))
        .map(drop)
}

fn report(py: Python<'_>, to: &LocalPid, token: i64) {
    let tasks =
        (py.import("erlang_loop.tasks")).and_then(|module| module.call_method0("of_all_loops"));
    let env = OwnEnv::new();
    let message = env.with(|inner| {
        let result = named::result(inner, &tasks, py, ResultOptions::default());
        env.keep((atoms::py_tasks(), token, result))
    });
    // If the process has died, nothing waits for it.
    env.send(to, message);
}
