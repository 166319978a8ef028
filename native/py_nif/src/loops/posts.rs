//! Replies and messages from Erlang for a loop that runs in Python: posted from any thread, without
//! the GIL, and taken by the loop's thread in its next turn.
//!
//! A loop of another implementation (asyncio's own) has no inbox. A dedicated thread notifies it
//! through the loop's `call_soon_threadsafe`.

use std::sync::mpsc::{Receiver, Sender as Channel, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use pyo3::prelude::*;

use super::NativeLoop;
use crate::cpython::process::finalizing;

pub trait Posted: Send + Sync {
    fn recipient(&self) -> &Recipient;
    /// Called on the loop's thread.
    fn arrived(&self, py: Python<'_>);
}

pub enum Recipient {
    Native(Weak<NativeLoop>),
    /// Any other asyncio loop.
    Foreign(Py<PyAny>),
}

impl Recipient {
    /// From any thread. Nothing waits for posts of a closed loop.
    pub fn post(&self, posted: Arc<dyn Posted>) {
        match self {
            Recipient::Native(native) => {
                let Some(native) = native.upgrade() else {
                    return;
                };
                if let Ok(true) = native.posts.push(posted) {
                    native.core.wake();
                }
            }
            Recipient::Foreign(_) => post_foreign(posted),
        }
    }
}

fn post_foreign(posted: Arc<dyn Posted>) {
    static THREAD: Mutex<Option<Channel<Arc<dyn Posted>>>> = Mutex::new(None);
    // Replaced as a whole.
    let mut to_thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if to_thread.is_none() {
        let (sender, receiver) = channel();
        let started = thread::Builder::new()
            .name("python-posts".to_owned())
            .spawn(move || finalizing::attach(|py| deliver(py, receiver)));
        *to_thread = started.is_ok().then_some(sender);
    }
    if let Some(to_thread) = &*to_thread {
        // The thread never ends.
        let _ = to_thread.send(posted);
    }
}

/// Attached once, for the life of the thread, and detached while it waits.
fn deliver(py: Python<'_>, mut posts: Receiver<Arc<dyn Posted>>) {
    loop {
        let posted;
        (posted, posts) = py.detach(move || (posts.recv(), posts));
        // The sender is in a static, so it is never dropped.
        let Ok(posted) = posted else { return };
        let Recipient::Foreign(owner) = posted.recipient() else {
            continue;
        };
        let owner = owner.clone_ref(py);
        let delivered = Py::new(py, Arrival(posted))
            .and_then(|arrival| owner.call_method1(py, "call_soon_threadsafe", (arrival,)));
        // The loop was closed: nothing waits for it.
        drop(delivered);
    }
}

/// The callback that a loop of another implementation runs.
#[pyclass(frozen, module = "erlang_loop._native")]
struct Arrival(Arc<dyn Posted>);

#[pymethods]
impl Arrival {
    fn __call__(&self, py: Python<'_>) {
        self.0.arrived(py);
    }
}
