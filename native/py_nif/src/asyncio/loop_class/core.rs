//! The loop for native code: queue a callback, watch an fd, get the native loop. The class itself
//! is in `class`; transports, `sock_operation` and the turn call this.

use std::os::fd::RawFd;
use std::sync::Arc;

use event_loop::{Direction, Mode, now_ns};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::class::{Loop, nanoseconds};
use super::fd_callbacks::{fileno, known_fileno, watch_error};
use super::fd_table::{Watched, Watcher};
use super::parts::{LoopKind, ServedParts};
use crate::asyncio::handles::handle::{Call, Handle};
use crate::asyncio::handles::io_object::IoObject;
use crate::asyncio::handles::ready::Item;
use crate::asyncio::handles::timer_handle::{Scheduled, TimerHandle};
use crate::cpython::arguments::Arguments;
use crate::cpython::errors;
use crate::cpython::interrupt;
use crate::cpython::method_calls::is_fatal;
use crate::cpython::process::forked;
use crate::loops::recorder::Kind;
use crate::loops::{NativeLoop, Pulse};

impl Loop {
    /// If Erlang started it.
    #[inline]
    pub fn served(&self) -> Option<&ServedParts> {
        match &self.kind {
            LoopKind::Served(served) => Some(served),
            LoopKind::Shared | LoopKind::Isolated(_) => None,
        }
    }

    #[inline]
    pub fn check_closed(&self, py: Python<'_>) -> PyResult<()> {
        match self.state.closed.get(py) {
            false => Ok(()),
            true => Err(PyRuntimeError::new_err("Event loop is closed")),
        }
    }

    /// The native loop; an error after `close()`.
    pub fn native(&self, py: Python<'_>) -> PyResult<Arc<NativeLoop>> {
        let native = self.native.with(py, |native| native.clone());
        native.ok_or_else(|| PyRuntimeError::new_err("Event loop is closed"))
    }

    /// Calls `ask` with the native loop; returns `false` after `close()`.
    #[inline]
    pub fn with_native(&self, py: Python<'_>, ask: impl FnOnce(&Arc<NativeLoop>) -> bool) -> bool {
        self.native
            .with(py, |native| native.as_ref().is_some_and(ask))
    }

    #[inline]
    pub fn with_pulse(&self, py: Python<'_>, record: impl FnOnce(&Pulse)) {
        self.native.with(py, |native| {
            if let Some(native) = native {
                record(&native.pulse);
            }
        });
    }

    pub fn wake(&self, py: Python<'_>) {
        self.with_native(py, |native| {
            native.core.wake();
            true
        });
    }

    /// As [`wake`](Self::wake), for a thread that has just queued a callback. If the loop has slept
    /// for a while, it is woken without the GIL: it needs the GIL at once, and the kernel may well
    /// run the woken thread first. If the loop has only just gone to sleep, more posts are probably
    /// coming: keep the GIL, so that it wakes to a full batch.
    pub fn wake_to_run(&self, py: Python<'_>) {
        let sleeps = self.with_native(py, |native| {
            let sleeps = native.core.parking.is_asleep()
                && now_ns().saturating_sub(self.waiting.since.get(py)) > native.policy.short_ns;
            if !sleeps {
                native.core.wake();
            }
            sleeps
        });
        if let Some(native) = sleeps.then(|| self.native(py)).and_then(Result::ok) {
            py.detach(|| native.core.wake());
        }
    }

    /// The checks that debug mode makes for every callback.
    #[cold]
    pub fn check_debug(
        slf: &Bound<'_, Self>,
        callback: &Bound<'_, PyAny>,
        method: &str,
        thread: bool,
    ) -> PyResult<()> {
        if thread {
            slf.call_method0("_check_thread")?;
        }
        slf.call_method1("_check_callback", (callback, method))
            .map(drop)
    }

    #[inline]
    pub fn push(&self, py: Python<'_>, handle: Py<Handle>) {
        self.push_item(py, Item::Callback(handle));
    }

    #[inline]
    pub fn push_item(&self, py: Python<'_>, item: Item) {
        self.ready.with(py, |ready| ready.push_back(item));
    }

    /// `call_soon(callback, *arguments, context=context)` for native code.
    pub fn enqueue(
        slf: &Bound<'_, Self>,
        callback: Bound<'_, PyAny>,
        arguments: Arguments,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.check_closed(py)?;
        let handle = Handle::new(slf, Call::new(callback, arguments), context)?;
        this.push(py, handle);
        Ok(())
    }

    pub fn callback_number(&self, py: Python<'_>) -> u64 {
        self.callbacks.number.get(py)
    }

    /// For the flight recorder, with the time at which the turn began.
    #[inline]
    pub fn record(&self, py: Python<'_>, kind: Kind, value: u64) {
        self.with_native(py, |native| {
            (native.recorder).record(kind, native.pulse.since(), value);
            true
        });
    }

    /// As [`record`](Self::record), with the time that it is.
    pub fn record_now(&self, py: Python<'_>, kind: Kind, value: u64) {
        self.with_native(py, |native| {
            native.recorder.record(kind, now_ns(), value);
            true
        });
    }

    /// Runs code of the program as a callback, which can be interrupted.
    #[inline(always)]
    pub fn callback<R>(&self, py: Python<'_>, body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        let number = self.callbacks.number.get(py) + 1;
        self.callbacks.number.set(py, number);
        interrupt::within(py, &self.callbacks.interruptible, number, body)
    }

    /// A callback has raised an exception. What follows does not belong to it: reporting the error
    /// must not be interrupted. A forked copy ends here.
    pub fn callback_raised(&self, py: Python<'_>, error: &PyErr) -> PyResult<()> {
        if self.served().is_some() {
            forked::end_if_copy(py, &Err::<(), _>(error.clone_ref(py)));
        }
        interrupt::end(py, &self.callbacks.interruptible)
    }

    pub fn flush_later(&self, py: Python<'_>, transport: IoObject) {
        self.files
            .unflushed
            .with(py, |unflushed| unflushed.push(transport));
    }

    /// A native operation of `source` failed where asyncio has a failing callback.
    #[cold]
    pub fn callback_failed(
        slf: &Bound<'_, Self>,
        source: &Bound<'_, PyAny>,
        error: PyErr,
    ) -> PyResult<()> {
        let py = slf.py();
        if is_fatal(py, &error) {
            return Err(error);
        }
        slf.get().callback_raised(py, &error)?;
        let context = PyDict::new(py);
        context.set_item(
            "message",
            format!("Exception in callback of {}", errors::shown(source)),
        )?;
        context.set_item("exception", error.into_value(py))?;
        context.set_item("transport", source)?;
        slf.call_method1("call_exception_handler", (context,))
            .map(drop)
    }

    /// The transport that an fd belongs to.
    pub fn transport_of(&self, py: Python<'_>, fd: RawFd) -> Option<Py<PyAny>> {
        self.files
            .transports
            .with(py, |transports| transports.get(py, fd))
    }

    /// Registers a watcher whose fd the core watches already.
    pub fn set_watcher(
        slf: &Bound<'_, Self>,
        fd: RawFd,
        direction: Direction,
        watched: Watched,
    ) -> PyResult<()> {
        let py = slf.py();
        let old = slf
            .get()
            .files
            .fds
            .with(py, |fds| fds.put(fd, direction, watched));
        let Some(old) = old else { return Ok(()) };
        let cancelled = match &old.by {
            Watcher::Callback(handle) => Handle::cancel(handle.bind(py)),
            Watcher::Io(object) => object.replaced(py),
        };
        old.drop_ref(py);
        cancelled
    }

    /// Ends a watch, in the core, too.
    pub fn remove_watcher(
        &self,
        py: Python<'_>,
        fd: RawFd,
        direction: Direction,
    ) -> Option<Watched> {
        self.with_native(py, |native| native.core.unwatch_fd(fd, direction).is_some());
        self.files.fds.with(py, |fds| fds.take(fd, direction))
    }

    /// A timer that is still in the heap was cancelled.
    pub fn timer_cancelled(&self, py: Python<'_>) {
        // What leaves the heap is dropped after the heap is consistent again.
        drop(self.timers.heap.with(py, |timers| {
            timers.note_cancelled();
            timers.take_discarded()
        }));
    }

    pub fn schedule(
        slf: &Bound<'_, Self>,
        when: f64,
        call: Call,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<TimerHandle>> {
        let py = slf.py();
        let this = slf.get();
        let timer = TimerHandle::build(slf, call, context, when)?;
        let entry = Scheduled(timer.bind(py).clone().into_super().unbind());
        this.timers
            .heap
            .with(py, |timers| timers.schedule(nanoseconds(when), entry));
        Ok(timer)
    }

    pub fn watch(
        slf: &Bound<'_, Self>,
        file: &Bound<'_, PyAny>,
        direction: Direction,
        mode: Mode,
        handle: Handle,
    ) -> PyResult<Py<Handle>> {
        let py = slf.py();
        let this = slf.get();
        let fd = fileno(file)?;
        let handle = Py::new(py, handle.repeating())?;
        let native = this.native(py)?;
        let core = &native.core;
        core.watch(fd, direction, 0, mode).map_err(watch_error)?;
        let watched = Watched::callback(handle.clone_ref(py), file);
        Self::set_watcher(slf, fd, direction, watched)?;
        Ok(handle)
    }

    pub fn unwatch(&self, file: &Bound<'_, PyAny>, direction: Direction) -> PyResult<bool> {
        let py = file.py();
        if self.state.closed.get(py) {
            return Ok(false);
        }
        let fd = known_fileno(self, file)?;
        let Some(removed) = self.remove_watcher(py, fd, direction) else {
            return Ok(false);
        };
        let cancelled = match &removed.by {
            Watcher::Callback(handle) => Handle::cancel(handle.bind(py)),
            _ => Ok(()),
        };
        removed.drop_ref(py);
        cancelled.map(|()| true)
    }
}
