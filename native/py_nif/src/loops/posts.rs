//! News from Erlang for a loop of Python: posted from any thread, without the GIL, and taken by
//! the loop's thread at its next turn.
//!
//! A loop of another make (asyncio's own) has no inbox. It is told by a thread that does nothing
//! else, through the loop's `call_soon_threadsafe`.

use std::sync::mpsc::{channel, Receiver, Sender as Channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use pyo3::prelude::*;

use super::NativeLoop;

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
    /// Any thread. A loop that is closed has nobody who waits.
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
    // Replaced whole.
    let mut to_thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if to_thread.is_none() {
        let (sender, receiver) = channel();
        let started = thread::Builder::new()
            .name("python-posts".to_owned())
            .spawn(move || Python::attach(|py| py.detach(move || tell(receiver))));
        *to_thread = started.is_ok().then_some(sender);
    }
    if let Some(to_thread) = &*to_thread {
        // The thread never ends.
        let _ = to_thread.send(posted);
    }
}

fn tell(posts: Receiver<Arc<dyn Posted>>) {
    for posted in posts {
        Python::attach(|py| {
            let Recipient::Foreign(owner) = posted.recipient() else {
                return;
            };
            let owner = owner.clone_ref(py);
            let told = Py::new(py, Arrival(posted))
                .and_then(|arrival| owner.call_method1(py, "call_soon_threadsafe", (arrival,)));
            // It was closed: nobody waits.
            drop(told);
        });
    }
}

/// The callback that a loop of another make runs.
#[pyclass(frozen, module = "erlang_loop._native")]
struct Arrival(Arc<dyn Posted>);

#[pymethods]
impl Arrival {
    fn __call__(&self, py: Python<'_>) {
        self.0.arrived(py);
    }
}
