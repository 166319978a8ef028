//! A loop as native code uses it: queue a callback, watch an fd, reach the native loop. The class
//! itself is in `loop_class`; transports, `sock_operation` and the turn call this.

use std::os::fd::RawFd;
use std::sync::Arc;

use event_loop::{now_ns, Direction, Mode};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arguments::Arguments;
use super::fd_callbacks::{fileno, known_fileno, watch_error, Watched, Watcher};
use super::handle::{Call, Handle};
use super::loop_class::{nanoseconds, Loop};
use super::ready::Item;
use super::timer_handle::{Scheduled, TimerHandle};
use super::transports::{is_fatal, StreamTransport};
use crate::loops::{NativeLoop, Pulse};

impl Loop {
    #[inline]
    pub fn check_closed(&self, py: Python<'_>) -> PyResult<()> {
        match self.closed.get(py) {
            false => Ok(()),
            true => Err(PyRuntimeError::new_err("Event loop is closed")),
        }
    }

    /// The native loop; an error after `close()`.
    pub fn native(&self, py: Python<'_>) -> PyResult<Arc<NativeLoop>> {
        let native = self.native.with(py, |native| native.clone());
        native.ok_or_else(|| PyRuntimeError::new_err("Event loop is closed"))
    }

    /// Asks the native loop something; `false` after `close()`.
    #[inline]
    pub fn with_native(&self, py: Python<'_>, ask: impl FnOnce(&Arc<NativeLoop>) -> bool) -> bool {
        self.native
            .with(py, |native| native.as_ref().is_some_and(ask))
    }

    #[inline]
    pub fn with_pulse(&self, py: Python<'_>, tell: impl FnOnce(&Pulse)) {
        self.native.with(py, |native| {
            if let Some(native) = native {
                tell(&native.pulse);
            }
        });
    }

    pub fn wake(&self, py: Python<'_>) {
        self.with_native(py, |native| {
            native.core.wake();
            true
        });
    }

    /// As [`wake`](Self::wake), by a thread that has just queued a callback. A loop that has slept for
    /// a while is woken without the GIL: it needs it at once, and the kernel may well let the thread
    /// that is woken run first. One that has slept for a moment is being posted to all the time, and
    /// is left to find many callbacks when we let go of the GIL by ourselves.
    pub fn wake_to_run(&self, py: Python<'_>) {
        let sleeps = self.with_native(py, |native| {
            let sleeps = native.core.parking.is_asleep()
                && now_ns().saturating_sub(self.rests_since.get(py)) > native.policy.short_ns;
            if !sleeps {
                native.core.wake();
            }
            sleeps
        });
        if let Some(native) = sleeps.then(|| self.native(py)).and_then(Result::ok) {
            py.detach(|| native.core.wake());
        }
    }

    /// What debug mode checks of every callback.
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

    /// `call_soon(callback, *arguments)` for native code.
    pub fn enqueue(
        slf: &Bound<'_, Self>,
        callback: Bound<'_, PyAny>,
        arguments: Arguments,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.check_closed(py)?;
        let handle = Handle::short_lived(slf, Call::new(callback, arguments), None)?;
        this.push(py, handle);
        Ok(())
    }

    pub fn callback_number(&self, py: Python<'_>) -> u64 {
        self.callbacks.get(py)
    }

    #[inline]
    pub fn next_callback(&self, py: Python<'_>) {
        self.callbacks.set(py, self.callbacks.get(py) + 1);
    }

    pub fn flush_later(&self, py: Python<'_>, transport: Py<StreamTransport>) {
        self.unflushed
            .with(py, |unflushed| unflushed.push(transport));
    }

    /// Something native that `source` did failed where asyncio has a callback fail.
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
        let context = PyDict::new(py);
        context.set_item(
            "message",
            format!("Exception in callback of {}", source.repr()?),
        )?;
        context.set_item("exception", error.into_value(py))?;
        context.set_item("transport", source)?;
        slf.call_method1("call_exception_handler", (context,))
            .map(drop)
    }

    /// The transport that an fd belongs to.
    pub fn transport_of(&self, py: Python<'_>, fd: RawFd) -> Option<Py<PyAny>> {
        if let Some(listed) = self.transports.with(py, |all| all.get(py, fd)) {
            return Some(listed);
        }
        let watching = self.fds.with(py, |fds| fds.transport(py, fd));
        watching.map(Py::into_any)
    }

    /// Puts a watcher in place whose fd is watched in the core already.
    pub fn set_watcher(
        slf: &Bound<'_, Self>,
        fd: RawFd,
        direction: Direction,
        watched: Watched,
    ) -> PyResult<()> {
        let py = slf.py();
        let old = slf
            .get()
            .fds
            .with(py, |fds| fds.put(fd, direction, watched));
        match old.as_ref().map(|old| &old.by) {
            Some(Watcher::Callback(handle)) => Handle::cancel(handle.bind(py)),
            Some(Watcher::Operation(operation)) => {
                operation.get().replaced(py);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends a watch, in the core too.
    pub fn remove_watcher(
        &self,
        py: Python<'_>,
        fd: RawFd,
        direction: Direction,
    ) -> Option<Watched> {
        self.with_native(py, |native| native.core.unwatch_fd(fd, direction).is_some());
        self.fds.with(py, |fds| fds.take(fd, direction))
    }

    /// A timer that is still in the heap was cancelled.
    pub fn timer_cancelled(&self, py: Python<'_>) {
        // What falls out of the heap is let go of after the heap is whole again.
        drop(self.timers.with(py, |timers| {
            timers.note_cancelled();
            timers.take_buried()
        }));
    }

    /// The collector sees all timers from here on: no turn comes that would see to it.
    pub fn settle_timers(&self, py: Python<'_>) {
        drop(self.timers.with(py, |timers| {
            timers.settle();
            timers.take_buried()
        }));
    }

    /// The next turn looks at the fds, however short ago the last look was: a new one may be ready,
    /// and on asyncio its callback runs before what later callbacks of this turn queue.
    pub fn look_next(&self, py: Python<'_>) {
        self.last_look.set(py, 0);
        self.last_clocked.set(py, 0);
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
        if !this.is_running(py) {
            // It may never get a turn, in which timers settle.
            Handle::notice(&entry.0);
        }
        this.timers
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
        let watched = match direction {
            Direction::Write if mode == Mode::LEVEL => core.watch_writer(fd, 0),
            _ => core.watch(fd, direction, 0, mode),
        };
        watched.map_err(watch_error)?;
        if direction == Direction::Read {
            // Writers that can write are told of without a look.
            this.look_next(py);
        }
        let watched = Watched::callback(handle.clone_ref(py), file);
        Self::set_watcher(slf, fd, direction, watched)?;
        Ok(handle)
    }

    pub fn unwatch(&self, file: &Bound<'_, PyAny>, direction: Direction) -> PyResult<bool> {
        let py = file.py();
        if self.closed.get(py) {
            return Ok(false);
        }
        let fd = known_fileno(self, file)?;
        let removed = self.remove_watcher(py, fd, direction);
        if let Some(Watcher::Callback(handle)) = removed.as_ref().map(|removed| &removed.by) {
            Handle::cancel(handle.bind(py))?;
        }
        Ok(removed.is_some())
    }
}
