//! The thread of a loop that Erlang started (`py_event_loop:start_link/1`).
//!
//! The native loop is made by the process that owns it, before its thread: that process may die
//! at any time after, and the loop then knows. `python/erlang_loop/served.py` runs it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use rustler::{Encoder, LocalPid, OwnedEnv};

use super::values;
use crate::atoms;
use crate::beam::message::{self, Sender};
use crate::beam::resource::Ref;
use crate::error::Error;
use crate::loops::{LoopRef, NativeLoop};

type Given = (Arc<NativeLoop>, Ref<LoopRef>);

thread_local! {
    /// What the next `_native.Loop` made on this thread takes instead of a new native loop.
    static GIVEN: RefCell<Option<Given>> = const { RefCell::new(None) };
}

pub fn take_given() -> Option<Given> {
    GIVEN.take()
}

/// Whom the thread tells how it goes: `{py_loop, Token, ready | {failed, Error} | {ended, Left}}`.
#[derive(Clone, Copy)]
pub struct Owner {
    pub pid: LocalPid,
    pub token: i64,
}

impl Owner {
    fn tell(self, news: impl Encoder) {
        // An owner that died: the loop hears of that by its monitor.
        let _ = message::send(
            Sender::Thread,
            &self.pid,
            (atoms::py_loop(), self.token, news),
        );
    }
}

pub struct Start {
    pub owner: Owner,
    pub name: String,
    /// Python code to run before the loop takes requests.
    pub init: String,
    /// Seconds that tasks have to end, when the loop has to.
    pub patience: f64,
}

/// Starts the thread. Python is up.
pub fn start(given: Given, start: Start) -> Result<(), Error> {
    thread::Builder::new()
        .name(format!("python-loop-{}", given.0.id))
        // As Python's main thread.
        .stack_size(8 << 20)
        .spawn(move || {
            Python::attach(|py| run(py, given, &start));
        })
        .map(drop)
        .map_err(|error| Error::Python(format!("no thread for the loop: {error}")))
}

fn run(py: Python<'_>, given: Given, start: &Start) {
    let native = given.0.clone();
    GIVEN.set(Some(given));
    let owner = start.owner;
    let served = || -> PyResult<Bound<'_, PyAny>> {
        let ready = PyCFunction::new_closure(
            py,
            None,
            None,
            move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| owner.tell(atoms::ready()),
        )?;
        let serve = py.import("erlang_loop.served")?.getattr("serve")?;
        serve.call1((
            start.name.as_str(),
            start.init.as_str(),
            ready,
            start.patience,
        ))
    };
    let outcome = served();
    drop(GIVEN.take());
    let own = OwnedEnv::new();
    own.run(|env| {
        let news = match &outcome {
            Ok(_) => (atoms::ended(), values::result(env, &outcome, py)).encode(env),
            Err(error) => (atoms::failed(), values::exception(env, py, error)).encode(env),
        };
        py.detach(|| {
            native.close(Sender::Thread);
            owner.tell(news);
        });
    });
}

// ---- the loop for coroutines of `py:call` ----

static DEFAULT: Mutex<Weak<NativeLoop>> = Mutex::new(Weak::new());

fn default() -> MutexGuard<'static, Weak<NativeLoop>> {
    // Only ever replaced whole.
    DEFAULT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

pub fn set_default_loop(native: &Arc<NativeLoop>) {
    *default() = Arc::downgrade(native);
}

pub fn default_loop() -> Option<Arc<NativeLoop>> {
    default()
        .upgrade()
        .filter(|native| native.requests.is_open())
}
