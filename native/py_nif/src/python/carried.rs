//! A loop on its runner: begun, run turn by turn, brought to its end. `runner` calls this;
//! `python/erlang_loop/served.py` is the part of it that is Python.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use event_loop::now_ns;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PySystemExit};
use pyo3::prelude::*;
use rustler::{Encoder, OwnedEnv};

use super::callers::Callers;
use super::load::Load;
use super::loop_class::Loop;
use super::loop_clock;
use super::loop_thread::{self, Given, Owner};
use super::runners::Arrival;
use super::{context, origin, stacks, turn, values};
use crate::atoms;
use crate::beam::message::Sender;
use crate::loops::NativeLoop;
use crate::questions::chain::LoopThread;

/// What a turn leaves behind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Something to run.
    Again,
    Nothing,
    /// The loop has come to its end: [`Carried::end`] it.
    Ended,
}

pub struct Carried {
    pub native: Arc<NativeLoop>,
    /// When its next timer is due, noted when it was laid to rest.
    pub deadline: Option<u64>,
    /// Its epoll set is in the runner's.
    pub is_watched: bool,
    pub is_runnable: bool,
    object: Py<Loop>,
    /// `erlang_loop.served.Served`.
    served: Py<PyAny>,
    /// What is current while its callbacks are created, and in its init code: as every thread
    /// has its own context, so has every loop that shares one.
    context: Py<PyAny>,
    owner: Owner,
    /// The future of the loop's end, once it has to end.
    finish: Option<Py<PyAny>>,
    /// What ended it out of order.
    failure: Option<PyErr>,
}

impl Carried {
    /// Makes the Python loop and runs its init code. `None`: it failed, and its owner knows.
    pub fn begin(py: Python<'_>, arrival: Arrival, load: &Arc<Load>) -> Option<Self> {
        let Arrival { native, start } = arrival;
        let owner = start.owner;
        // It stays on this thread for life.
        let _ = native.thread.set(LoopThread::this());
        let begun = || -> PyResult<Self> {
            let context = new_context(py)?;
            context::enter(py, &context)?;
            loop_thread::give(Given {
                native: native.clone(),
                load: load.clone(),
                origin: start.origin.clone(),
            });
            origin::set(py, &start.origin)?;
            let served = py
                .import("erlang_loop.served")?
                .call_method1("begin", (&start.name, &start.init, start.patience));
            drop(loop_thread::take_given());
            context::leave(py, &context)?;
            let served = served?;
            let object = served.getattr("loop")?.cast_into::<Loop>()?;
            let callers = Callers::of(py, &context)?;
            drop(object.get().callers.replace(py, callers));
            Ok(Carried {
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
            Ok(carried) => {
                carried.object.get().is_begun.set(py, true);
                if native.requests.any(&native) {
                    // Init code that ran the loop may have been woken in vain by them.
                    native.core.wake();
                }
                native.pulse.runs_on(stacks::this_thread());
                if start.announce {
                    owner.tell(atoms::ready());
                }
                Some(carried)
            }
            Err(error) => {
                report(py, &native, owner, Err(error));
                None
            }
        }
    }

    /// The thread becomes this loop's. Errors cannot be anybody's but ours, and are shown.
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

    /// One turn, of a loop that was entered. With `block` it waits if there is nothing to run.
    pub fn turn(&mut self, py: Python<'_>, block: bool) -> Turn {
        let object = &self.object.bind(py).clone();
        // A panic of ours ends this loop, not those beside it.
        let result = catch_unwind(AssertUnwindSafe(|| match block {
            true => turn::run(object),
            false => turn::run_nowait(object),
        }))
        .unwrap_or_else(|_| Err(PyRuntimeError::new_err("the native loop panicked")));
        if !block {
            // The thread goes on with another loop.
            self.native.pulse.turned(now_ns());
            self.native.pulse.rests();
        }
        if let Err(error) = result {
            if let Err(error) = self.raised(py, error) {
                self.failure = Some(error);
                return Turn::Ended;
            }
        }
        let this = object.get();
        if this.stopping.get(py) {
            this.stopping.set(py, false);
            if let Err(error) = self.begin_end(py) {
                self.failure = Some(error);
                return Turn::Ended;
            }
        }
        if self.has_ended(py) {
            return Turn::Ended;
        }
        let more = this.ready.with(py, |ready| !ready.is_empty())
            || this.between.get(py)
            || self.native.core.any_early();
        match block || more {
            true => Turn::Again,
            false => Turn::Nothing,
        }
    }

    /// Whoever asked for a task that raises `SystemExit` has got it as the answer. Other tasks of
    /// the loop, and the node, do not end for it.
    fn raised(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        if !error.is_instance_of::<PySystemExit>(py)
            && !error.is_instance_of::<PyKeyboardInterrupt>(py)
        {
            return Err(error);
        }
        let error = error.into_value(py);
        self.served
            .call_method1(py, "wanted_to_exit", (error,))
            .map(drop)
    }

    /// `stop()`, or Erlang wants it to end: tasks are cancelled, finalizers run. Once.
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
                // Not to be told is no reason to run for ever.
                .unwrap_or(true)
        })
    }

    /// On the system's clock.
    pub fn next_deadline(&self, py: Python<'_>) -> Option<u64> {
        let timers = &self.object.get().timers;
        let (deadline, buried) =
            timers.with(py, |timers| (timers.next_deadline(), timers.take_buried()));
        drop(buried);
        let deadline = deadline?;
        Some(match loop_clock::of_program(self.object.bind(py)) {
            Ok(None) => deadline,
            Ok(Some(clock)) => now_ns().saturating_add(deadline.saturating_sub(clock)),
            // The turn asks again, and raises.
            Err(_) => now_ns(),
        })
    }

    /// Closes the loop, which was left, and tells its owner.
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

/// An empty one, as a new thread has.
fn new_context(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let context = py.import("contextvars")?.call_method0("Context")?;
    Ok(context.unbind())
}

fn show<T>(py: Python<'_>, result: PyResult<T>) {
    if let Err(error) = result {
        error.write_unraisable(py, None);
    }
}

/// The last word to the owner.
fn report(py: Python<'_>, native: &NativeLoop, owner: Owner, outcome: PyResult<Bound<'_, PyAny>>) {
    OwnedEnv::new().run(|env| {
        // What cannot cross has failed, too: the owner waits for one of the two.
        let left = outcome.and_then(|left| values::item(env, &left));
        let news = match left {
            Ok(left) => (atoms::ended(), (atoms::ok(), left)).encode(env),
            Err(error) => (atoms::failed(), values::exception(env, py, &error)).encode(env),
        };
        py.detach(|| {
            native.close(Sender::Thread);
            owner.tell(news);
        });
    });
}
