//! One loop on its runner: its beginning, its turns, its end. `runner` calls this;
//! `python/erlang_loop/served.py` is the Python part.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use event_loop::now_ns;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rustler::{Encoder, OwnedEnv};

use super::placement::Arrival;
use super::start::Owner;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::loop_arguments;
use crate::asyncio::loop_class::loop_arguments::LoopArguments;
use crate::asyncio::loop_class::loop_clock;
use crate::asyncio::origin;
use crate::asyncio::turn::run_once;
use crate::atoms;
use crate::beam::message::Sender;
use crate::convert::{ResultOptions, named};
use crate::cpython::context;
use crate::cpython::method_calls::is_fatal;
use crate::cpython::process::forked;
use crate::cpython::sampling::PythonThread;
use crate::loops::LoopThread;
use crate::loops::NativeLoop;
use crate::loops::busy_share::BusyShare;

/// The state after a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is something to run.
    Again,
    Nothing,
    /// The loop has ended: call [`ServedLoop::end`].
    Ended,
}

pub struct ServedLoop {
    pub native: Arc<NativeLoop>,
    /// When its next timer is due, recorded when it began to rest.
    pub deadline: Option<u64>,
    /// Its epoll set is in the runner's.
    pub is_watched: bool,
    pub is_runnable: bool,
    object: Py<Loop>,
    /// `erlang_loop.served.Served`.
    served: Py<PyAny>,
    /// The current context while its callbacks are created, and in its init code: as every thread
    /// has its own context, so has every loop that shares one.
    context: Py<PyAny>,
    owner: Owner,
    /// The future of the loop's end, once it is ending.
    finish: Option<Py<PyAny>>,
    /// What ended it unexpectedly.
    failure: Option<PyErr>,
}

impl ServedLoop {
    /// Creates the Python loop and runs its init code. `None`: it failed, and its owner was
    /// notified.
    pub fn begin(py: Python<'_>, arrival: Arrival, busy: &Arc<BusyShare>) -> Option<Self> {
        let Arrival { native, start } = arrival;
        let owner = start.owner;
        // It stays on this thread for life.
        let _ = native.thread.set(LoopThread::this());
        let begun = || -> PyResult<Self> {
            let context = new_context(py)?;
            context::enter(py, &context)?;
            loop_arguments::store(LoopArguments {
                native: native.clone(),
                busy: busy.clone(),
                origin: start.origin.clone(),
                take_requests: start.take_requests,
            });
            origin::set(py, &start.origin)?;
            let served = py
                .import("erlang_loop.served")?
                .call_method1("begin", (&start.name, &start.init, start.patience));
            forked::end_if_copy(py, &served);
            drop(loop_arguments::take());
            context::leave(py, &context)?;
            let served = served?;
            let object = served.getattr("loop")?.cast_into::<Loop>()?;
            let own_context = context::copy(py, &context)?;
            if let Some(served) = object.get().served() {
                drop(served.own_context.replace(py, Some(own_context)));
            }
            Ok(ServedLoop {
                object: object.unbind(),
                native: native.clone(),
                deadline: None,
                is_watched: false,
                is_runnable: false,
                served: served.unbind(),
                context,
                owner,
                finish: None,
                failure: None,
            })
        };
        match begun() {
            Ok(served_loop) => {
                if let Some(served) = served_loop.object.get().served() {
                    served.is_begun.set(py, true);
                }
                if native.has_requests() {
                    // Init code that ran the loop may have consumed wake-ups for requests.
                    native.core.wake();
                }
                native.pulse.runs_on(PythonThread::this(py));
                if start.announce {
                    owner.notify(atoms::ready());
                }
                Some(served_loop)
            }
            Err(error) => {
                report(py, &native, owner, Err(error));
                None
            }
        }
    }

    /// Switches the thread to this loop. An error can only come from our own code, and is printed.
    pub fn enter(&self, py: Python<'_>) {
        let entered = context::enter(py, &self.context)
            .and_then(|()| self.served.call_method0(py, pyo3::intern!(py, "enter")));
        show(py, entered);
    }

    pub fn leave(&self, py: Python<'_>) {
        let left = self
            .served
            .call_method0(py, pyo3::intern!(py, "leave"))
            .and_then(|_| context::leave(py, &self.context));
        show(py, left);
    }

    /// One turn of the loop that the thread was switched to. With `block` it waits if there is
    /// nothing to run.
    pub fn turn(&mut self, py: Python<'_>, block: bool) -> Turn {
        let object = &self.object.bind(py).clone();
        // A panic in our code ends this loop, not the others on the thread.
        let result = catch_unwind(AssertUnwindSafe(|| match block {
            true => run_once::run(object),
            false => run_once::run_nowait(object),
        }))
        .unwrap_or_else(|_| Err(PyRuntimeError::new_err("the native loop panicked")));
        forked::end_if_copy_after_callback(py, &result);
        if !block {
            // The thread continues with another loop.
            self.native.pulse.turned(now_ns());
            self.native.pulse.rests();
        }
        if let Err(error) = result
            && let Err(error) = self.raised(py, error)
        {
            self.failure = Some(error);
            return Turn::Ended;
        }
        let this = object.get();
        if this.state.stopping.get(py) {
            this.state.stopping.set(py, false);
            if let Err(error) = self.begin_end(py) {
                self.failure = Some(error);
                return Turn::Ended;
            }
        }
        if self.has_ended(py) {
            return Turn::Ended;
        }
        let more = this.ready.with(py, |ready| !ready.is_empty()) || this.priorities.any.get(py);
        match block || more {
            true => Turn::Again,
            false => Turn::Nothing,
        }
    }

    /// The caller of a task that raises `SystemExit` has got that as the reply. Other tasks of the
    /// loop, and the node, are not affected.
    fn raised(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        if !is_fatal(py, &error) {
            return Err(error);
        }
        let error = error.into_value(py);
        self.served
            .call_method1(py, "wanted_to_exit", (error,))
            .map(drop)
    }

    /// `stop()`, or Erlang wants the loop to end: tasks are cancelled, finalizers run. Once.
    fn begin_end(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.finish.is_none() {
            let idle = (self.object.get().ready).with(py, |ready| ready.is_empty());
            self.finish = Some(self.served.call_method1(py, "finish", (idle,))?);
        }
        Ok(())
    }

    fn has_ended(&self, py: Python<'_>) -> bool {
        self.finish.as_ref().is_some_and(|task| {
            task.call_method0(py, "done")
                .and_then(|done| done.is_truthy(py))
                // If this cannot be read, the loop ends: it must not run forever.
                .unwrap_or(true)
        })
    }

    /// On the system's clock.
    pub fn next_deadline(&self, py: Python<'_>) -> Option<u64> {
        let timers = &self.object.get().timers.heap;
        let (deadline, discarded) = timers.with(py, |timers| {
            (timers.next_deadline(), timers.take_discarded())
        });
        drop(discarded);
        let deadline = deadline?;
        Some(match loop_clock::of_program(self.object.bind(py)) {
            Ok(None) => deadline,
            Ok(Some(clock)) => now_ns().saturating_add(deadline.saturating_sub(clock)),
            // The turn calls it again, and raises.
            Err(_) => now_ns(),
        })
    }

    /// Closes the loop, which the thread has left, and notifies its owner.
    pub fn end(self, py: Python<'_>) {
        let outcome = match (self.failure, self.finish) {
            (Some(error), _) => Err(error),
            (None, Some(task)) => task.call_method0(py, "result"),
            (None, None) => Err(PyRuntimeError::new_err("the loop has not ended")),
        };
        let closed = self.served.call_method0(py, "end");
        let outcome = closed.and(outcome).map(|left| left.into_bound(py));
        drop((self.object, self.served, self.context));
        report(py, &self.native, self.owner, outcome);
    }
}

/// An empty context, as a new thread has.
fn new_context(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let context = py.import("contextvars")?.call_method0("Context")?;
    Ok(context.unbind())
}

fn show<T>(py: Python<'_>, result: PyResult<T>) {
    if let Err(error) = result {
        error.write_unraisable(py, None);
    }
}

/// Sends the owner the result.
fn report(py: Python<'_>, native: &NativeLoop, owner: Owner, outcome: PyResult<Bound<'_, PyAny>>) {
    OwnedEnv::new().run(|env| {
        // A result that cannot be converted is an error: the owner waits for one of the two.
        let left = outcome.and_then(|left| named::item(env, &left, ResultOptions::default()));
        let news = match left {
            Ok(left) => (atoms::ended(), (atoms::ok(), left)).encode(env),
            Err(error) => (atoms::failed(), named::exception(env, py, &error)).encode(env),
        };
        py.detach(|| {
            native.close(Sender::Thread);
            owner.notify(news);
        });
    });
}
