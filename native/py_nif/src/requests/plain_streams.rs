//! Streams of plain generators and other iterables: they run on call threads, in slices.
//!
//! A slice produces items while there is demand, but only for a moment when other calls wait: then
//! the generator goes to the end of the queue. Without demand it is *set aside*, without a thread,
//! until `py:demand/2` or its end: so thousands of streams need no more threads than calls do.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::call_threads;
use super::call_threads::{QueuedCall, interrupts};
use super::calls;
use super::request::{Next, Request, RunsOn};
use crate::beam::resource::Ref;
use crate::convert::named;
use crate::cpython::context;
use crate::cpython::process::forked;
use crate::loops::NativeLoop;
use crate::output::lines;

/// How long a generator runs while others wait. Less than the patience of call threads: generators
/// that are only busy need no more threads.
const SLICE: Duration = Duration::from_millis(1);

/// A stream that is being iterated over, and the loop of its request.
pub struct Slice {
    pub request: Ref<Request>,
    source: Source,
    pub home: Option<Arc<NativeLoop>>,
    /// The context in which the function was called, and in which every slice runs, on any thread.
    context: Py<PyAny>,
}

enum Source {
    /// What the function has returned.
    Iterable(Py<PyAny>),
    Iterator(Py<PyIterator>),
}

/// The streams that wait for demand.
fn set_aside() -> MutexGuard<'static, HashMap<u64, Slice>> {
    static SET_ASIDE: LazyLock<Mutex<HashMap<u64, Slice>>> = LazyLock::new(Mutex::default);
    // Single insertions and removals: consistent also after a panic.
    SET_ASIDE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// How many streams wait for demand.
pub fn count() -> usize {
    set_aside().len()
}

/// The streams that wait for demand.
pub fn waiting() -> Vec<Ref<Request>> {
    let slices = set_aside();
    slices.values().map(|slice| slice.request.clone()).collect()
}

/// A stream that was set aside has demand, or must end. From any thread.
pub fn resume(id: u64) {
    let slice = set_aside().remove(&id);
    // If it is not there, it is running or queued already.
    if let Some(slice) = slice {
        call_threads::post_admitted(QueuedCall::Stream(slice));
    }
}

impl Slice {
    pub fn new(
        request: Ref<Request>,
        iterable: Py<PyAny>,
        home: Option<Arc<NativeLoop>>,
        context: Py<PyAny>,
    ) -> Self {
        Slice {
            request,
            source: Source::Iterable(iterable),
            home,
            context,
        }
    }

    /// On a call thread.
    pub fn run(self, py: Python<'_>) {
        let asked = self.request.origin.clone();
        let context = self.context.clone_ref(py);
        let run = context::within(py, &context, || {
            self.produce(py);
            Ok(())
        });
        if let Err(error) = run {
            // No other thread uses this context: only this slice runs in it.
            error.write_unraisable(py, None);
        }
        // The next slice may run on another thread.
        lines::end(&asked.target());
    }

    fn produce(mut self, py: Python<'_>) {
        if !self.request.begin(RunsOn::CallThread) {
            return self.close(py);
        }
        let mut iterator = match self.begun(py) {
            Ok(iterator) => iterator,
            Err(error) => return self.end(py, Err(error)),
        };
        let began = Instant::now();
        loop {
            match self.request.next() {
                Next::Produce => {}
                Next::Wait => return self.wait(py),
                Next::Stop => return self.close(py),
            }
            let id = self.request.id;
            let next = interrupts::within(py, id, || iterator.next().transpose());
            forked::end_if_copy(py, &next);
            let item = match next.transpose() {
                Some(Ok(item)) => item,
                Some(Err(error)) => return self.end(py, Err(error)),
                None => return self.end(py, Ok(py.None().into_bound(py))),
            };
            let options = self.request.result;
            let sent = interrupts::within(py, id, || {
                (self.request).send_item(|env| named::item(env, &item, options))
            });
            if let Err(error) = sent {
                return self.end_closed(py, &iterator, error);
            }
            if began.elapsed() > SLICE && call_threads::are_waiting() {
                return self.requeue(py);
            }
        }
    }

    fn begun<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let iterator = match &self.source {
            Source::Iterator(iterator) => return Ok(iterator.bind(py).clone()),
            Source::Iterable(iterable) => {
                interrupts::within(py, self.request.id, || iterable.bind(py).try_iter())?
            }
        };
        self.source = Source::Iterator(iterator.clone().unbind());
        Ok(iterator)
    }

    fn requeue(self, py: Python<'_>) {
        match self.request.begin(RunsOn::NoThread) {
            true => call_threads::post_admitted(QueuedCall::Stream(self)),
            false => self.close(py),
        }
    }

    /// The order matters: later demand finds the stream set aside, and the last check sees earlier
    /// demand.
    fn wait(self, py: Python<'_>) {
        let request = self.request.clone();
        if !request.begin(RunsOn::NoThread) {
            return self.close(py);
        }
        set_aside().insert(request.id, self);
        if request.wait_for_demand() != Next::Wait {
            resume(request.id);
        }
    }

    /// The stream has no consumer: its `finally` blocks run.
    fn close(self, py: Python<'_>) {
        self.request.closing();
        if let Source::Iterator(iterator) = &self.source
            && let Err(error) =
                interrupts::within_closing(py, self.request.id, || close(iterator.bind(py)))
        {
            calls::report_late(py, &self.request, &error);
        }
        calls::settle(&self.request, self.home.as_ref());
    }

    /// An item cannot be converted.
    fn end_closed(self, py: Python<'_>, iterator: &Bound<'_, PyIterator>, error: PyErr) {
        let closed = interrupts::within_closing(py, self.request.id, || close(iterator));
        if let Err(second) = closed {
            // As if it were raised in a `finally` block.
            second.set_context(py, Some(error.clone_ref(py)));
            return self.end(py, Err(second));
        }
        self.end(py, Err(error));
    }

    fn end(self, py: Python<'_>, outcome: PyResult<Bound<'_, PyAny>>) {
        calls::reply(py, &self.request, outcome);
        calls::settle(&self.request, self.home.as_ref());
    }
}

/// Generators have `close`, and so do files; iterators of lists need none.
fn close(iterator: &Bound<'_, PyIterator>) -> PyResult<()> {
    match iterator.getattr_opt("close")? {
        Some(close) => close.call0().map(drop),
        None => Ok(()),
    }
}
