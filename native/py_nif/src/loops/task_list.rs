//! The tasks of a loop, for `py_inspect`: the loop's own thread lists them in its next turn. The
//! last list stays, so that there is something to show of a loop that is stuck.
//!
//! The list itself is made in Python, `erlang_loop/inspect.py`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use event_loop::now_ns;
use pyo3::prelude::*;
use rustler::{Env, LocalPid, Term};

use super::{NativeLoop, Posted, Recipient};
use crate::atoms;
use crate::beam::message;
use crate::beam::message::Sender;
use crate::beam::own_env::OwnTerm;
use crate::convert;

/// How many processes may wait for one list. Of more, the first get no message.
const MAX_WAITING: usize = 64;

#[derive(Default)]
pub struct TaskList {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last list, and when it was complete (ns).
    last: Option<(u64, OwnTerm)>,
    /// The loop has been asked, and has not begun to list.
    is_asked: bool,
    /// Who gets `{py_task_list, Token}` when there is a list.
    waiting: Vec<(LocalPid, i64)>,
}

impl TaskList {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Single assignments: consistent also after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago the last list was complete (ns), and that list.
    pub fn last<'a>(&self, env: Env<'a>) -> Option<(u64, Term<'a>)> {
        let state = self.lock();
        let (taken, list) = state.last.as_ref()?;
        let age = now_ns().saturating_sub(*taken);
        Some((age, list.with(|term| term.in_env(env))))
    }

    fn notify(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for (to, token) in waiting {
            message::send(Sender::Thread, &to, (atoms::py_task_list(), token));
        }
    }
}

impl NativeLoop {
    /// Makes the loop list its tasks. `to` gets `{py_task_list, Token}` when it has.
    pub fn list_tasks(self: &Arc<Self>, to: LocalPid, token: i64) {
        {
            let mut state = self.task_list.lock();
            if state.waiting.len() == MAX_WAITING {
                state.waiting.remove(0);
            }
            state.waiting.push((to, token));
            if std::mem::replace(&mut state.is_asked, true) {
                return;
            }
        }
        let recipient = Recipient::Native(Arc::downgrade(self));
        let request = Arc::new(ListTasks {
            recipient,
            native: Arc::downgrade(self),
        });
        if let Recipient::Native(_) = &request.recipient {
            request.recipient.post(request.clone());
        }
    }

    /// As [`list_tasks`](Self::list_tasks), for a loop that does not reply: another thread lists
    /// the tasks, if it gets the GIL.
    pub fn list_tasks_from_outside(self: &Arc<Self>) -> std::io::Result<()> {
        let native = Arc::downgrade(self);
        let number = self.id;
        thread::Builder::new()
            .name("python-inspect".to_owned())
            .spawn(move || {
                // Not if Python has ended meanwhile.
                Python::try_attach(|py| list(py, native, Some(number)))
            })
            .map(drop)
    }
}

/// Posted to the loop.
struct ListTasks {
    recipient: Recipient,
    native: Weak<NativeLoop>,
}

impl Posted for ListTasks {
    fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    fn arrived(&self, py: Python<'_>) {
        if let Some(native) = self.native.upgrade() {
            native.task_list.lock().is_asked = false;
        }
        list(py, self.native.clone(), None);
    }
}

/// Lists the tasks of the running loop, or of the loop of that number.
fn list(py: Python<'_>, native: Weak<NativeLoop>, number: Option<u64>) {
    let result = || -> PyResult<()> {
        let reply = Py::new(
            py,
            ListReply {
                native,
                is_sent: AtomicBool::new(false),
            },
        )?;
        let module = py.import("erlang_loop.inspect")?;
        module.call_method1("_list_tasks", (reply, number))?;
        Ok(())
    };
    if let Err(error) = result() {
        // Only the list is missing.
        error.write_unraisable(py, None);
    }
}

/// Python calls it with the list. If it is dropped before that, the last list stays.
#[pyclass(frozen, module = "erlang_loop._native")]
struct ListReply {
    native: Weak<NativeLoop>,
    is_sent: AtomicBool,
}

#[pymethods]
impl ListReply {
    fn __call__(&self, list: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(native) = self.native.upgrade() else {
            return Ok(());
        };
        let built = OwnTerm::build(|env| convert::to_term(env, list));
        let built = built.map_err(|error| error.within("task list"))?;
        // What it replaces is freed without the lock.
        let before = native.task_list.lock().last.replace((now_ns(), built));
        drop(before);
        self.is_sent.store(true, Ordering::Relaxed);
        native.task_list.notify();
        Ok(())
    }
}

impl Drop for ListReply {
    fn drop(&mut self) {
        if let (false, Some(native)) = (self.is_sent.load(Ordering::Relaxed), self.native.upgrade())
        {
            native.task_list.notify();
        }
    }
}
