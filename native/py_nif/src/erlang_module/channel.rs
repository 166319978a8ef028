//! `_native.Channel`: the reading end of a channel, as `python/erlang/channels.py` uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyEOFError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rustler::{Encoder, Env, Term};

use super::{running_loop, waiting};
use crate::atoms;
use crate::beam::forked;
use crate::beam::message::Sender;
use crate::beam::own_env::{OwnEnv, OwnTerm};
use crate::beam::resource::Ref;
use crate::beam::terms::KeptTerm;
use crate::convert::channels::ChannelConversion;
use crate::convert::{self, Reference, exception, named};
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::method_calls;
use crate::loops::{Posted, Recipient};
use crate::mailboxes::Channel;
use crate::mailboxes::channel::{End, Kind, Taken, WaitingTask};

pub const CONVERSION: ChannelConversion = ChannelConversion { to_python, to_term };

#[pyclass(frozen, subclass, name = "Channel", module = "erlang_loop._native")]
pub struct PyChannel {
    channel: Ref<Channel>,
    /// It was sent to Erlang again: its consumer may be elsewhere.
    passed_on: AtomicBool,
}

#[pymethods]
impl PyChannel {
    #[new]
    fn new(made: &Bound<'_, Reference>) -> PyResult<Self> {
        convert::in_node()?;
        let found = OwnEnv::new().with(|env| made.get().in_env(env).decode::<Ref<Channel>>());
        let channel = found.map_err(|_| PyTypeError::new_err("not a channel"))?;
        channel.consumer_added();
        Ok(PyChannel {
            channel,
            passed_on: AtomicBool::new(false),
        })
    }

    /// Whether its items are bytes.
    #[getter]
    fn is_bytes(&self) -> bool {
        self.channel.kind == Kind::Bytes
    }

    /// Whether no more items can be sent. There may be items to read.
    #[getter]
    fn closed(&self) -> bool {
        !self.channel.is_open()
    }

    /// `(item,)`, or None if there is none now. Raises EOFError at the end. `view`: a memoryview
    /// instead of bytes.
    #[pyo3(signature = (view=false))]
    fn _take<'py>(&self, py: Python<'py>, view: bool) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        match self.channel.take() {
            Taken::Item(item) => Ok(Some((self.value(py, &item, view)?,))),
            Taken::Empty => Ok(None),
            Taken::End(end) => Err(self.error(py, end)),
        }
    }

    /// Blocks the thread until an item or the end, without the GIL. False after a timeout.
    fn _wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        if running_loop::running_loop(py)?.is_some() {
            return Err(PyRuntimeError::new_err(
                "this would block the event loop of this thread: use `async for`, or \
                 `await channel.async_receive()`",
            ));
        }
        let woken = self.channel.clone();
        waiting::wait(
            py,
            timeout,
            Box::new(move || woken.wake()),
            |until, ends| self.channel.wait(until, ends),
        )
    }

    /// Waits for an item or the end on the running loop. None: there is one already.
    fn _want(&self, py: Python<'_>) -> PyResult<Option<ChannelWaiter>> {
        let Some(running) = running_loop::running_loop(py)? else {
            return Err(PyRuntimeError::new_err("no running event loop"));
        };
        let future = running.call_method0(pyo3::intern!(py, "create_future"))?;
        let task = Arc::new(WaitingTask {
            channel: self.channel.clone(),
            recipient: running_loop::recipient(&running)?,
            future: GilCell::new(Some(future.unbind())),
        });
        let waits = self.channel.wait_on_loop(&task);
        Ok(waits.then_some(ChannelWaiter { task }))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// For threads: waits for the next item.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            match self.channel.take() {
                Taken::Item(item) => return self.value(py, &item, false).map(Some),
                Taken::Empty => drop(self._wait(py, None)?),
                Taken::End(End::Closed) => return Ok(None),
                Taken::End(end) => return Err(self.error(py, end)),
            }
        }
    }

    /// Drops all items: senders get `{error, closed}`, or the exception.
    #[pyo3(signature = (error=None))]
    fn _close(&self, py: Python<'_>, error: Option<Bound<'_, PyAny>>) {
        if forked::is_copy() {
            return;
        }
        let reason = error.map(|error| {
            let error = PyErr::from_value(error);
            let kept = OwnEnv::new().with(|env| KeptTerm::new(named::exception(env, py, &error)));
            Arc::new(kept)
        });
        self.channel.end(Sender::Thread, End::Left(reason));
    }
}

impl PyChannel {
    fn value<'py>(
        &self,
        py: Python<'py>,
        item: &OwnTerm,
        view: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = item.with(|item| match self.channel.kind {
            Kind::Terms => convert::to_python(py, item),
            Kind::Bytes if view => convert::memoryview(py, item),
            Kind::Bytes => convert::bytes(py, item),
        });
        Ok(value.map_err(|error| error.within("item"))?)
    }

    fn error(&self, py: Python<'_>, end: End) -> PyErr {
        OwnEnv::new().with(|env| {
            let reason = match end {
                End::Closed => return PyEOFError::new_err("the channel is closed"),
                End::Left(_) => {
                    return PyValueError::new_err("the channel was closed by its consumer");
                }
                End::OwnerDown => (atoms::owner_down(), self.channel.owner).encode(env),
                End::Failed(reason) => reason.in_env(env),
            };
            exception::from_erlang(py, "exit", reason, atoms::none().encode(env))
        })
    }
}

impl Drop for PyChannel {
    fn drop(&mut self) {
        if !forked::is_copy() {
            // Relaxed: only the thread that frees the object can still read it.
            let closes = !self.passed_on.load(Ordering::Relaxed);
            self.channel.consumer_gone(closes);
        }
    }
}

/// A task that waits for an item.
#[pyclass(frozen, module = "erlang_loop._native")]
pub struct ChannelWaiter {
    task: Arc<WaitingTask>,
}

#[pymethods]
impl ChannelWaiter {
    /// None after the item has arrived.
    #[getter]
    fn future(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.task.future.cloned(py)
    }

    /// The task no longer waits; another one is notified if there is something to read.
    fn abandon(&self, py: Python<'_>) {
        drop(self.task.future.take(py));
        self.task.channel.stop_waiting_on_loop(&self.task);
    }

    /// The future refers to the task that awaits it, and the task to this object.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut result = Ok(());
        self.task.future.visit(|future| result = visit.call(future));
        result
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.task.future.take(py));
    }
}

impl Drop for ChannelWaiter {
    fn drop(&mut self) {
        if !forked::is_copy() {
            self.task.channel.stop_waiting_on_loop(&self.task);
        }
    }
}

impl Posted for WaitingTask {
    fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    fn arrived(&self, py: Python<'_>) {
        // None: the task has been cancelled, and has passed it on.
        let Some(future) = self.future.take(py) else {
            return;
        };
        let future = future.bind(py);
        if let Err(error) = method_calls::complete(future) {
            error.write_unraisable(py, Some(future));
        }
    }
}

fn to_python<'py>(py: Python<'py>, term: Term<'_>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if term.decode::<Ref<Channel>>().is_err() {
        return Ok(None);
    }
    let class = CLASS.import(py, "erlang.channels", "Channel")?;
    class.call1((Reference::keep(term),)).map(Some)
}

fn to_term<'a>(env: Env<'a>, value: &Bound<'_, PyAny>) -> Option<Term<'a>> {
    let channel = value.cast::<PyChannel>().ok()?.get();
    channel.passed_on.store(true, Ordering::Relaxed);
    Some(channel.channel.encode(env))
}
