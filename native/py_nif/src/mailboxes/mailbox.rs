//! The messages sent to a pid that represents Python code (a task or a thread), and not read yet.
//!
//! The pid is a process, `py_actor`. It passes on its messages through a NIF; this stores them and
//! wakes the code. The process holds the mailbox as a resource, Python as a plain reference: either
//! may end first, and the other notices.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use event_loop::Awaited;
use pyo3::{Py, PyAny};
use rustler::{Env, LocalPid, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::own_env::OwnEnv;
use crate::beam::own_env::OwnTerm;
use crate::beam::resource::{Resource, TypeCell};
use crate::beam::terms::{Elements, KeptTerm};
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::spin_wait;
use crate::loops::Recipient;

#[derive(Default)]
struct State {
    messages: VecDeque<OwnTerm>,
    /// `{Pid, Reason}` of linked processes that have died.
    exits: VecDeque<OwnTerm>,
    /// The processes whose death Python wants to be notified of.
    linked: Vec<KeptTerm>,
    process: Option<LocalPid>,
    /// The process has died.
    ended: bool,
    /// The loop waits for a message.
    wanted: bool,
}

#[derive(Default)]
pub struct Mailbox {
    /// The loop of the task. None: a thread, or not set yet.
    pub recipient: OnceLock<Recipient>,
    /// A weak reference to the Python object that is notified on the loop.
    pub owner: GilCell<Option<Py<PyAny>>>,
    /// Locked for a few instructions at a time.
    state: Awaited<State>,
}

impl Mailbox {
    /// Wakes the loop or the thread to check the mailbox.
    fn notify(self: &Arc<Self>) {
        match self.recipient.get() {
            Some(recipient) => recipient.post(self.clone()),
            None => self.state.announce(),
        }
    }

    // ---- the process ----

    pub fn opened(&self, pid: LocalPid) {
        self.state.lock().process = Some(pid);
    }

    pub fn deliver(self: &Arc<Self>, message: Term<'_>) {
        let message = OwnTerm::copy(message);
        let notify = {
            let mut state = self.state.lock();
            state.messages.push_back(message);
            std::mem::take(&mut state.wanted) || self.recipient.get().is_none()
        };
        if notify {
            self.notify();
        }
    }

    /// A linked process has died. Returns `false` if Python did not ask to be notified.
    pub fn exit(self: &Arc<Self>, pid: Term<'_>, reason: Term<'_>) -> bool {
        let (exit, key) = (OwnTerm::copy((pid, reason)), KeptTerm::new(pid));
        {
            let mut state = self.state.lock();
            let Some(index) = state.linked.iter().position(|linked| *linked == key) else {
                return false;
            };
            drop(state.linked.swap_remove(index));
            state.exits.push_back(exit);
        }
        self.notify();
        true
    }

    fn process_ended(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.state.lock().ended, true) {
            self.notify();
        }
    }

    // ---- Python ----

    pub fn process(&self) -> Option<LocalPid> {
        self.state.lock().process
    }

    pub fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    pub fn take(&self) -> Option<OwnTerm> {
        self.state.lock().messages.pop_front()
    }

    pub fn take_exit(&self) -> Option<OwnTerm> {
        self.state.lock().exits.pop_front()
    }

    /// Notify the owner of the next message. Returns `false` if there is one already.
    pub fn want(&self) -> bool {
        let mut state = self.state.lock();
        state.wanted = state.messages.is_empty();
        state.wanted
    }

    /// Blocks the thread until a message or the end, or until `ends` is true after a
    /// [`wake`](Self::wake); returns `false` after a timeout.
    pub fn wait(&self, until: Option<Instant>, ends: impl Fn() -> bool) -> bool {
        let news = |state: &State| !state.messages.is_empty() || state.ended || ends();
        spin_wait::wait(&self.state, until, news)
    }

    /// The thread that waits checks whether it still wants to.
    pub fn wake(&self) {
        // After this it either sleeps, or checks later.
        drop(self.state.lock());
        self.state.announce();
    }

    pub fn link(&self, pid: KeptTerm) {
        self.state.lock().linked.push(pid);
    }

    /// Returns `false` if the process is not linked, or has died.
    pub fn unlink(&self, pid: &KeptTerm) -> bool {
        let mut state = self.state.lock();
        let found = state.linked.iter().position(|linked| linked == pid);
        found.map(|index| state.linked.swap_remove(index)).is_some()
    }

    /// Removes the message `{'DOWN', Monitor, _, _, _}` of a monitor that has just been ended.
    pub fn flush(&self, monitor: &KeptTerm) {
        self.state
            .lock()
            .messages
            .retain(|message| !message.with(|message| is_down(message, monitor)));
    }

    /// Ends the process, with the term that `reason` creates. For our own threads.
    pub fn end(&self, reason: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        let process = self.process();
        if let Some(pid) = process {
            let env = OwnEnv::new();
            let message = env.with(|inner| env.keep((atoms::py_end(), reason(inner))));
            // If the process has ended, there is nothing to do.
            let _ = env.send(&pid, message);
        }
    }
}

fn is_down(message: Term<'_>, monitor: &KeptTerm) -> bool {
    let Some(elements) = Elements::of(message) else {
        return false;
    };
    elements.len() == 5
        && elements.get(0).is_some_and(|tag| atoms::down() == tag)
        && elements
            .get(1)
            .is_some_and(|found| KeptTerm::new(found) == *monitor)
}

/// A mailbox as a resource of its process.
pub struct MailboxRef(pub Arc<Mailbox>);

impl Resource for MailboxRef {
    const NAME: &'static CStr = c"erlang_loop.mailbox";
    fn cell() -> &'static TypeCell {
        static CELL: TypeCell = TypeCell::new();
        &CELL
    }
    fn down(&self, _env: Env<'_>, _pid: LocalPid) {
        self.0.process_ended();
    }
    fn destroy(self, _sender: Sender<'_>) {
        self.0.process_ended();
    }
}
