//! Python's main thread: it starts the interpreter and then runs programs one after another.
//!
//! Programs expect this thread: `signal.signal` works only here, `asyncio.run` handles Ctrl-C
//! only here.

use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender as Channel, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::interpreter;
use super::interpreter::Settings;
use super::{command, finalizing, forked};

type Job = Box<dyn FnOnce(Python<'_>) + Send>;

const NAME: &str = "python-main";

enum State {
    Down,
    /// Running or starting: jobs wait in the queue until Python is ready.
    Up(Channel<Job>),
    /// One program has the thread until the process ends: see `command`.
    Occupied,
    /// The start failed, and cannot be repeated in this process.
    Failed(String),
}

static STATE: Mutex<State> = Mutex::new(State::Down);

fn state() -> std::sync::MutexGuard<'static, State> {
    // Only ever replaced as a whole.
    STATE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts Python unless it runs or is starting. `then` is called on the main thread with the
/// result. Returns an error if an earlier start failed, because a start cannot be repeated in this
/// process.
pub fn start(
    settings: Settings,
    then: impl FnOnce(Result<(), String>) + Send + 'static,
) -> Result<(), String> {
    let mut state = state();
    match &*state {
        State::Failed(why) => Err(why.clone()),
        State::Up(jobs) => {
            // The thread never ends, so the channel is open.
            let _ = jobs.send(Box::new(move |_| then(Ok(()))));
            Ok(())
        }
        State::Occupied => {
            // Not on this thread: `then` is for our own threads, and the program may just be
            // starting.
            let started = thread::Builder::new().spawn(move || {
                wait_ready();
                then(Ok(()));
            });
            started
                .map(drop)
                .map_err(|error| format!("no thread: {error}"))
        }
        State::Down => {
            let (jobs, queue) = channel::<Job>();
            spawn(move || main(&settings, queue, then))?;
            *state = State::Up(jobs);
            Ok(())
        }
    }
}

/// Starts Python with `python arguments...` as the only program of the main thread: the process
/// ends with it.
pub fn start_command(settings: Settings, arguments: Vec<CString>) -> Result<(), String> {
    let mut state = state();
    match &*state {
        State::Down => {
            spawn(move || command::run(&settings, &arguments))?;
            *state = State::Occupied;
            Ok(())
        }
        _ => Err("Python runs already".to_owned()),
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    thread::Builder::new()
        .name(NAME.to_owned())
        // The usual stack size of a process's main thread: Python code recurses deeply.
        .stack_size(8 << 20)
        .spawn(body)
        .map(drop)
        .map_err(|error| format!("cannot start a thread for Python: {error}"))
}

/// Set when Python can be used.
static READY: AtomicBool = AtomicBool::new(false);

/// Marks Python as ready: other threads may attach. Release: they see all initialisation.
pub fn set_ready() {
    READY.store(true, Ordering::Release);
    let _waiting = READY_LOCK.lock();
    READY_NEWS.notify_all();
}

/// For threads that wait for `READY`, which they check under the lock.
static READY_LOCK: Mutex<()> = Mutex::new(());
static READY_NEWS: Condvar = Condvar::new();

fn wait_ready() {
    let mut guard = READY_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    while !is_ready() {
        guard = READY_NEWS
            .wait(guard)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

pub fn is_ready() -> bool {
    READY.load(Ordering::Acquire)
}

/// Whether the caller is on Python's main thread.
pub fn is_this() -> bool {
    // Rust knows no name of threads that Python starts.
    thread::current().name() == Some(NAME)
}

pub fn is_up() -> bool {
    matches!(&*state(), State::Up(_) | State::Occupied)
}

/// Whether a command line occupies the main thread, and with it the process.
pub fn is_occupied() -> bool {
    matches!(&*state(), State::Occupied)
}

/// Runs `job` on the main thread after earlier jobs. Returns `false` if Python was never started,
/// or its main thread is occupied.
pub fn post(job: impl FnOnce(Python<'_>) + Send + 'static) -> bool {
    match &*state() {
        State::Up(jobs) => jobs.send(Box::new(job)).is_ok(),
        _ => false,
    }
}

fn main(settings: &Settings, queue: Receiver<Job>, then: impl FnOnce(Result<(), String>)) {
    match interpreter::start(settings) {
        Ok(()) => {
            set_ready();
            then(Ok(()));
        }
        Err(why) => {
            *state() = State::Failed(why.clone());
            return then(Err(why));
        }
    }
    // The thread waits for a job detached; the sender is in STATE forever, so this loop never ends.
    while let Ok(job) = queue.recv() {
        // The job's sender handles its panics; the thread must not end with one.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            finalizing::attach(|py| {
                job(py);
                forked::end_if_copy(py, &Ok(()));
            });
        }));
    }
}

/// What a program on the main thread may return.
pub enum Value {
    None,
    Int(i64),
    Text(String),
}

/// Imports `module` and calls its `function`. An exception comes back as its printed traceback.
pub fn call(
    py: Python<'_>,
    module: &str,
    function: &str,
    arguments: &[String],
) -> Result<Value, String> {
    let called = || -> PyResult<Value> {
        let arguments = PyTuple::new(py, arguments)?;
        let result = py.import(module)?.getattr(function)?.call1(arguments);
        forked::end_if_copy(py, &result);
        let result = result?;
        if result.is_none() {
            return Ok(Value::None);
        }
        match result.extract::<i64>() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => Ok(Value::Text(result.str()?.to_string())),
        }
    };
    called().map_err(|error| printed(py, &error))
}

/// The value of an expression in `__main__`, with the entries of a dict as its local names.
pub fn eval<'py>(
    py: Python<'py>,
    source: &CStr,
    names: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let globals = py.import("__main__")?.dict();
    py.eval(source, Some(&globals), Some(names.cast::<PyDict>()?))
}

/// As Python prints it: `traceback.format_exception`, or the bare error if even that fails.
fn printed(py: Python<'_>, error: &PyErr) -> String {
    let lines = || -> PyResult<String> {
        let format = py.import("traceback")?.getattr("format_exception")?;
        let lines = format.call1((error.get_type(py), error.value(py), error.traceback(py)))?;
        Ok(lines.extract::<Vec<String>>()?.concat())
    };
    lines().unwrap_or_else(|_| error.to_string())
}
