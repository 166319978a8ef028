//! The methods of `_native.Loop` that every callback calls: `fast_method` explains why they are
//! fast; `class` has the others.

use std::ffi::CStr;
use std::os::fd::RawFd;

use event_loop::Direction;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyType};

use super::class::Loop;
use super::fd_callbacks::{MODE, direction, fileno, known_fileno};
use super::futures;
use super::loop_clock;
use crate::asyncio::handles::handle::{Call, Handle};
#[cfg(Py_3_14)]
use crate::asyncio::handles::thread_safe_handle::ThreadSafeHandle;
use crate::asyncio::turn::priorities;
use crate::cpython::fast_method::{CallArguments, FastMethod, FastMethod0, install, install0};

/// Gives a class of loops methods of its own. CPython's fast way to call a method applies only if
/// the object is of the very class that the method was created for, not of a subclass.
#[pyfunction]
pub fn own_methods(loop_class: &Bound<'_, PyType>) -> PyResult<()> {
    match loop_class.is_subclass_of::<Loop>()? {
        true => add(loop_class),
        false => Err(PyTypeError::new_err("not a class of loops")),
    }
}

/// Adds them to the class.
pub fn add(class: &Bound<'_, PyType>) -> PyResult<()> {
    install::<CallSoon>(class)?;
    install::<CallSoonThreadsafe>(class)?;
    install::<QueueMicrotask>(class)?;
    install::<CallLater>(class)?;
    install::<CallAt>(class)?;
    install::<Add<false>>(class)?;
    install::<Add<true>>(class)?;
    install::<Remove<false>>(class)?;
    install::<Remove<true>>(class)?;
    install::<CreateTask>(class)?;
    install0::<CreateFuture>(class)?;
    install0::<GetDebug>(class)?;
    install0::<IsClosed>(class)?;
    install0::<CheckClosed>(class)?;
    install0::<Time>(class)
}

struct CallSoon;

impl FastMethod for CallSoon {
    type Class = Loop;
    const NAME: &'static CStr = c"call_soon";
    const DOC: &'static CStr =
        c"call_soon($self, callback, *args, context=None)\n--\n\nRun a callback in the next turn.";

    #[inline]
    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = build(slf, arguments, "call_soon", true)?;
        slf.get().push(slf.py(), handle.clone().unbind());
        Ok(handle.into_any())
    }
}

/// As `call_soon`, from any thread; the GIL guards the queue, and a sleeping loop is woken.
struct CallSoonThreadsafe;

impl FastMethod for CallSoonThreadsafe {
    type Class = Loop;
    const NAME: &'static CStr = c"call_soon_threadsafe";
    const DOC: &'static CStr = c"call_soon_threadsafe($self, callback, *args, context=None)\n--\n\nRun a callback in the next turn. From any thread.";

    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = build(slf, arguments, "call_soon_threadsafe", false)?;
        slf.get().push(slf.py(), handle.clone().unbind());
        slf.get().wake_to_run(slf.py());
        Ok(handle.into_any())
    }
}

/// As `call_soon`, but it runs right after the callback that is running, before any other.
struct QueueMicrotask;

impl FastMethod for QueueMicrotask {
    type Class = Loop;
    const NAME: &'static CStr = c"queue_microtask";
    const DOC: &'static CStr = c"queue_microtask($self, callback, *args, context=None)\n--\n\nRun a callback right after the one that is running.";

    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let handle = build(slf, arguments, "queue_microtask", true)?;
        priorities::queue_microtask(slf, handle.clone().unbind())?;
        Ok(handle.into_any())
    }
}

#[inline(always)]
fn build<'py>(
    slf: &Bound<'py, Loop>,
    arguments: CallArguments<'_, 'py>,
    method: &str,
    same_thread: bool,
) -> PyResult<Bound<'py, Handle>> {
    let py = slf.py();
    let this = slf.get();
    let split = arguments.split(method, ["callback"])?;
    let [callback] = split.leading;
    this.check_closed(py)?;
    if this.state.debug.get(py) {
        Loop::check_debug(slf, &callback, method, same_thread)?;
    }
    let call = Call::new(callback.to_owned(), split.rest);
    #[cfg(Py_3_14)]
    if !same_thread {
        let handle = Handle::build(slf, call, split.context)?;
        return Ok(ThreadSafeHandle::build(py, handle)?.into_bound(py));
    }
    let handle = Handle::new(slf, call, split.context)?;
    Ok(handle.into_bound(py))
}

struct CallLater;

impl FastMethod for CallLater {
    type Class = Loop;
    const NAME: &'static CStr = c"call_later";
    const DOC: &'static CStr = c"call_later($self, delay, callback, *args, context=None)\n--\n\nRun a callback after some seconds.";

    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let split = arguments.split("call_later", ["delay", "callback"])?;
        let [delay, callback] = split.leading;
        if delay.is_none() {
            return Err(PyTypeError::new_err("delay must not be None"));
        }
        let when = loop_clock::seconds(slf)? + delay.extract::<f64>()?;
        let call = Call::new(callback.to_owned(), split.rest);
        schedule(slf, when, call, split.context)
    }
}

struct CallAt;

impl FastMethod for CallAt {
    type Class = Loop;
    const NAME: &'static CStr = c"call_at";
    const DOC: &'static CStr =
        c"call_at($self, when, callback, *args, context=None)\n--\n\nRun a callback at a time of `time()`.";

    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let split = arguments.split("call_at", ["when", "callback"])?;
        let [when, callback] = split.leading;
        if when.is_none() {
            return Err(PyTypeError::new_err("when cannot be None"));
        }
        let when = when.extract::<f64>()?;
        let call = Call::new(callback.to_owned(), split.rest);
        schedule(slf, when, call, split.context)
    }
}

fn schedule<'py>(
    slf: &Bound<'py, Loop>,
    when: f64,
    call: Call,
    context: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let this = slf.get();
    this.check_closed(py)?;
    if this.state.debug.get(py) {
        // asyncio's `call_later` calls it, and so errors name it.
        Loop::check_debug(slf, call.callback().bind(py), "call_at", true)?;
    }
    let timer = Loop::schedule(slf, when, call, context)?;
    Ok(timer.into_bound(py).into_any())
}

/// `add_reader`, or `add_writer`.
struct Add<const WRITING: bool>;

impl<const WRITING: bool> FastMethod for Add<WRITING> {
    type Class = Loop;
    const NAME: &'static CStr = if WRITING {
        c"add_writer"
    } else {
        c"add_reader"
    };
    const DOC: &'static CStr = if WRITING {
        c"add_writer($self, fd, callback, *args)\n--\n\nCall back whenever the fd is writable."
    } else {
        c"add_reader($self, fd, callback, *args)\n--\n\nCall back whenever the fd is readable."
    };

    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let method = if WRITING { "add_writer" } else { "add_reader" };
        watch(slf, arguments, method, direction(WRITING))
    }
}

/// `remove_reader`, or `remove_writer`.
struct Remove<const WRITING: bool>;

impl<const WRITING: bool> FastMethod for Remove<WRITING> {
    type Class = Loop;
    const NAME: &'static CStr = if WRITING {
        c"remove_writer"
    } else {
        c"remove_reader"
    };
    const DOC: &'static CStr = if WRITING {
        c"remove_writer($self, fd)\n--\n\nWhether there was one."
    } else {
        c"remove_reader($self, fd)\n--\n\nWhether there was one."
    };

    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let method = if WRITING {
            "remove_writer"
        } else {
            "remove_reader"
        };
        unwatch(slf, arguments, method, direction(WRITING))
    }
}

fn watch<'py>(
    slf: &Bound<'py, Loop>,
    arguments: CallArguments<'_, 'py>,
    method: &str,
    direction: Direction,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let this = slf.get();
    let ([file, callback], rest) = arguments.leading(method, ["fd", "callback"])?;
    check_free(slf, &file, fileno(&file)?)?;
    this.check_closed(py)?;
    let handle = Handle::build(slf, Call::new(callback.to_owned(), rest), None)?;
    Loop::watch(slf, &file, direction, MODE, handle)?.drop_ref(py);
    Ok(py.None().into_bound(py))
}

fn unwatch<'py>(
    slf: &Bound<'py, Loop>,
    arguments: CallArguments<'_, 'py>,
    method: &str,
    direction: Direction,
) -> PyResult<Bound<'py, PyAny>> {
    let [file] = arguments.exactly(method, ["fd"])?;
    check_free(slf, &file, known_fileno(slf.get(), &file)?)?;
    Ok(bool(slf, slf.get().unwatch(&file, direction)?))
}

/// A watcher of a transport's fd would take its data: asyncio's own check says so.
fn check_free<'py>(slf: &Bound<'py, Loop>, file: &Bound<'py, PyAny>, fd: RawFd) -> PyResult<()> {
    let py = slf.py();
    match slf.get().transport_of(py, fd) {
        None => Ok(()),
        Some(_) => slf
            .call_method1(intern!(slf.py(), "_ensure_fd_no_transport"), (file,))
            .map(drop),
    }
}

struct CreateTask;

impl FastMethod for CreateTask {
    type Class = Loop;
    const NAME: &'static CStr = c"create_task";
    const DOC: &'static CStr =
        c"create_task($self, coro, **kwargs)\n--\n\nRun a coroutine in a task of its own.";

    fn call<'py>(
        slf: &Bound<'py, Loop>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        futures::create_task(slf, arguments)
    }
}

struct CreateFuture;

impl FastMethod0 for CreateFuture {
    type Class = Loop;
    const NAME: &'static CStr = c"create_future";
    const DOC: &'static CStr = c"create_future($self)\n--\n\nA future of this loop.";

    fn call<'py>(slf: &Bound<'py, Loop>) -> PyResult<Bound<'py, PyAny>> {
        futures::create_future(slf)
    }
}

struct GetDebug;

impl FastMethod0 for GetDebug {
    type Class = Loop;
    const NAME: &'static CStr = c"get_debug";
    const DOC: &'static CStr = c"get_debug($self)\n--\n\nWhether debug mode is on.";

    fn call<'py>(slf: &Bound<'py, Loop>) -> PyResult<Bound<'py, PyAny>> {
        Ok(bool(slf, slf.get().state.debug.get(slf.py())))
    }
}

struct IsClosed;

impl FastMethod0 for IsClosed {
    type Class = Loop;
    const NAME: &'static CStr = c"is_closed";
    const DOC: &'static CStr = c"is_closed($self)\n--\n\nWhether close() was called.";

    fn call<'py>(slf: &Bound<'py, Loop>) -> PyResult<Bound<'py, PyAny>> {
        Ok(bool(slf, slf.get().state.closed.get(slf.py())))
    }
}

/// asyncio's own check, with which every method that needs an open loop begins.
struct CheckClosed;

impl FastMethod0 for CheckClosed {
    type Class = Loop;
    const NAME: &'static CStr = c"_check_closed";
    const DOC: &'static CStr = c"_check_closed($self)\n--\n\nRuntimeError after close().";

    fn call<'py>(slf: &Bound<'py, Loop>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().check_closed(slf.py())?;
        Ok(slf.py().None().into_bound(slf.py()))
    }
}

fn bool<'py>(slf: &Bound<'py, Loop>, value: bool) -> Bound<'py, PyAny> {
    PyBool::new(slf.py(), value).to_owned().into_any()
}

struct Time;

impl FastMethod0 for Time {
    type Class = Loop;
    const NAME: &'static CStr = c"time";
    const DOC: &'static CStr =
        c"time($self)\n--\n\nSeconds on the monotonic clock: the same as `time.monotonic()`.";

    fn call<'py>(slf: &Bound<'py, Loop>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyFloat::new(slf.py(), loop_clock::system_seconds()).into_any())
    }
}
