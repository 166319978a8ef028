//! `_native.Mailbox`: a mailbox as `python/erlang/mailboxes.py` uses it.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use rustler::{Atom, Encoder, Env, Term};

use super::{async_calls, calls, messages, running_loop, waiting};
use crate::atoms;
use crate::beam::own_env::OwnEnv;
use crate::beam::own_env::OwnTerm;
use crate::beam::resource::Ref;
use crate::beam::terms::KeptTerm;
use crate::convert;
use crate::convert::named;
use crate::convert::{Pid, Reference};
use crate::loops::{Posted, Recipient};
use crate::mailboxes::{Mailbox, MailboxRef};
use crate::requests::call_mailbox;

#[pyclass(frozen, name = "Mailbox", module = "erlang_loop._native")]
pub struct PyMailbox {
    mailbox: Arc<Mailbox>,
    /// The exit reason of the process if this object is dropped without `end`.
    left: Atom,
}

#[pymethods]
impl PyMailbox {
    /// With `owner`, a weak reference to an object, the mailbox belongs to the running loop, which
    /// calls its `_arrived()` when there is something to read; without it, to this thread. `made`
    /// is a mailbox that a process created for it; without one a process is started.
    #[new]
    #[pyo3(signature = (owner=None, made=None))]
    fn new(
        py: Python<'_>,
        owner: Option<Py<PyAny>>,
        made: Option<&Bound<'_, Reference>>,
    ) -> PyResult<Self> {
        convert::in_node()?;
        let mailbox = match made {
            Some(made) => existing(made)?,
            None => Arc::<Mailbox>::default(),
        };
        let left = match owner {
            Some(_) => atoms::loop_down(),
            None => atoms::normal(),
        };
        if owner.is_some() {
            let Some(running) = running_loop::running_loop(py)? else {
                return Err(PyRuntimeError::new_err("no running event loop"));
            };
            drop(mailbox.owner.replace(py, owner));
            // A mailbox is created or taken once.
            let _ = mailbox.recipient.set(running_loop::recipient(&running)?);
        }
        call_mailbox::mark();
        if made.is_none() {
            let term = Ref::new(MailboxRef(mailbox.clone()));
            let call = (atoms::call(), atoms::py_actor(), atoms::adopt(), vec![term]);
            calls::ask(py, OwnTerm::copy(call), None)?;
        }
        Ok(PyMailbox { mailbox, left })
    }

    #[getter]
    fn pid(&self, py: Python<'_>) -> PyResult<Py<Pid>> {
        let Some(pid) = self.mailbox.process() else {
            return Err(PyRuntimeError::new_err("the mailbox has no process"));
        };
        OwnEnv::new().with(|env| Py::new(py, Pid::keep(pid.encode(env))))
    }

    #[getter]
    fn ended(&self) -> bool {
        self.mailbox.has_ended()
    }

    /// `(message,)`, or None if there is none. Raises `erlang.ConversionError` for a message that
    /// cannot be converted: that message is lost.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let Some(message) = self.mailbox.take() else {
            return Ok(None);
        };
        let value = message.with(|message| convert::to_python(py, message));
        Ok(Some((value.map_err(|error| error.within("message"))?,)))
    }

    /// `(pid, reason)` of a linked process that has died.
    fn take_exit<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let exit = self.mailbox.take_exit()?;
        exit.with(|exit| {
            let (pid, reason): (Term<'_>, Term<'_>) = exit.decode().ok()?;
            let reason = convert::to_python(py, reason).unwrap_or_else(|_| {
                format!("{reason:?}")
                    .into_pyobject(py)
                    .map_or_else(|never| match never {}, Bound::into_any)
            });
            Some((convert::to_python(py, pid).ok()?, reason))
        })
    }

    /// Notify the owner of the next message. False: there is one already.
    fn want(&self) -> bool {
        self.mailbox.want()
    }

    /// Blocks the thread until a message, without the GIL. False after a timeout.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let woken = self.mailbox.clone();
        waiting::wait(
            py,
            timeout,
            Box::new(move || woken.wake()),
            |until, ends| self.mailbox.wait(until, ends),
        )
    }

    /// Makes the process itself call `py_actor:Function(*args)`; `args` may contain names. Returns
    /// the future of the result.
    fn ask(
        &self,
        py: Python<'_>,
        function: &str,
        args: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let Some(pid) = self.mailbox.process() else {
            return Err(PyRuntimeError::new_err("the mailbox has no process"));
        };
        let call = OwnTerm::build(|env| -> PyResult<Term<'_>> {
            let function = named(function)?;
            let args = args
                .iter()
                .map(|arg| messages::destination(env, arg))
                .collect::<PyResult<Vec<_>>>()?;
            let call = (atoms::call(), atoms::py_actor(), function, args);
            Ok(call.encode(env))
        })?;
        async_calls::ask_process(py, call, &pid)
    }

    /// From now on `_arrived` reports the death of this process.
    fn link(&self, pid: &Bound<'_, Pid>) {
        self.mailbox.link(kept(pid));
    }

    /// False: it has died before.
    fn unlink(&self, pid: &Bound<'_, Pid>) -> bool {
        self.mailbox.unlink(&kept(pid))
    }

    /// Removes the message of a monitor that has been ended.
    fn flush(&self, monitor: &Bound<'_, Reference>) {
        let monitor = OwnEnv::new().with(|env| KeptTerm::new(monitor.get().in_env(env)));
        self.mailbox.flush(&monitor);
    }

    /// Ends the process: normally, after a cancellation (`cancelled`) or with an exception.
    #[pyo3(signature = (error=None, cancelled=false))]
    fn end(&self, py: Python<'_>, error: Option<Bound<'_, PyAny>>, cancelled: bool) {
        self.mailbox.end(|env| match error {
            Some(error) => reason(env, py, error),
            None if cancelled => (atoms::shutdown(), atoms::cancelled()).encode(env),
            None => atoms::normal().encode(env),
        });
    }
}

impl Drop for PyMailbox {
    fn drop(&mut self) {
        if !crate::beam::forked::is_copy() {
            let left = self.left;
            self.mailbox.end(|env| left.encode(env));
        }
    }
}

fn kept(pid: &Bound<'_, Pid>) -> KeptTerm {
    OwnEnv::new().with(|env| KeptTerm::new(pid.get().in_env(env)))
}

fn existing(made: &Bound<'_, Reference>) -> PyResult<Arc<Mailbox>> {
    let found = OwnEnv::new().with(|env| {
        let mailbox: Result<Ref<MailboxRef>, _> = made.get().in_env(env).decode();
        mailbox.map(|mailbox| mailbox.0.clone())
    });
    found.map_err(|_| PyTypeError::new_err("not a mailbox"))
}

/// The functions that a mailbox's process may be asked to call.
fn named(function: &str) -> PyResult<Atom> {
    match function {
        "demonitor" => Ok(atoms::demonitor()),
        "link" => Ok(atoms::link()),
        "monitor" => Ok(atoms::monitor()),
        "unlink" => Ok(atoms::unlink()),
        other => Err(PyTypeError::new_err(format!("no function: {other}"))),
    }
}

/// The exit reason for an exception: that of an `erlang.Error` of kind `exit`, or
/// `{py_exception, Exception}`.
fn reason<'a>(env: Env<'a>, py: Python<'_>, error: Bound<'_, PyAny>) -> Term<'a> {
    let is_exit = error
        .getattr("kind")
        .and_then(|kind| kind.eq("exit"))
        .unwrap_or(false);
    if is_exit
        && convert::exception::is_erlang_error(&error)
        && let Ok(Ok(reason)) = error
            .getattr("reason")
            .map(|reason| convert::to_term(env, &reason))
    {
        return reason;
    }
    let exception = named::exception(env, py, &PyErr::from_value(error));
    (atoms::py_exception(), exception).encode(env)
}

impl Posted for Mailbox {
    fn recipient(&self) -> &Recipient {
        self.recipient
            .get()
            .expect("only those of loops are posted")
    }

    fn arrived(&self, py: Python<'_>) {
        let called = || -> PyResult<()> {
            let Some(owner) = self.owner.cloned(py) else {
                return Ok(());
            };
            let owner = owner.call0(py)?;
            if !owner.is_none(py) {
                owner.call_method0(py, pyo3::intern!(py, "_arrived"))?;
            }
            Ok(())
        };
        if let Err(error) = called() {
            error.write_unraisable(py, None);
        }
    }
}
