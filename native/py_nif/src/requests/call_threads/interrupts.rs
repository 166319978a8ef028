//! Interrupts the call that runs on a call thread, when its caller has timed out, cancelled or died:
//! `erlang.Interrupted` is raised in it.
//!
//! Python code that belongs to a call runs [`within`] it: the function, the conversion of its
//! arguments and of its result, each item of a generator. Only there an interrupt can be raised. One
//! that finds the thread elsewhere (before the function, in `erlang.uninterruptible`, in
//! `erlang.call`) stays *due*, and is raised when the thread is within that call again. If the call
//! ends before, no code is interrupted.
//!
//! A thread of its own, `python-interrupts`, raises them, because that takes the GIL.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use pyo3::prelude::*;
use pyo3::types::PyCFunction;

use super::call_thread;
use crate::beam::forked;
use crate::cpython::interrupt;
use crate::cpython::interrupt::Interruptible;

/// In the number of a generator that is being closed: only a repeated interrupt is for that code.
const CLOSING: u64 = 1 << 63;

/// The interruptible code of one thread. It is numbered by the id of its request.
#[derive(Default)]
pub struct Interrupts {
    code: Interruptible,
    /// The number of the code in which an interrupt is still to be raised; 0: none. Relaxed: ordered
    /// by the GIL, or by the fences of `Interruptible`.
    due: AtomicU64,
    /// Called after an interrupt was raised: it may have to wake the code.
    callback: Mutex<Option<Py<PyAny>>>,
}

impl Interrupts {
    /// Runs `body` as the code of this number.
    pub fn within<R>(
        &self,
        py: Python<'_>,
        number: u64,
        body: impl FnOnce() -> PyResult<R>,
    ) -> PyResult<R> {
        interrupt::within(py, &self.code, number, || {
            self.raise_if_due(py, number)?;
            body()
        })
    }

    fn raise_if_due(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        match self.due.load(Ordering::Relaxed) == number {
            false => Ok(()),
            true => {
                self.due.store(0, Ordering::Relaxed);
                Err(interrupt::interrupted(py))
            }
        }
    }

    /// Until [`resume`](Self::resume) no interrupt is raised. Returns the number of the code that is
    /// protected; 0 if none can be interrupted anyway.
    pub fn protect(&self, py: Python<'_>) -> PyResult<u64> {
        let (number, taken_back) = interrupt::suspend(py, &self.code)?;
        if taken_back {
            self.due.store(number, Ordering::Relaxed);
        }
        Ok(number)
    }

    /// Raises an interrupt that came meanwhile.
    pub fn resume(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        if number == 0 {
            return Ok(());
        }
        interrupt::resume(&self.code, number);
        self.raise_if_due(py, number)
    }

    /// Whether an interrupt is due in this code.
    pub fn is_due(&self, number: u64) -> bool {
        number != 0 && self.due.load(Ordering::Relaxed) == number
    }

    /// Raises an interrupt in the code that runs, on its own thread.
    fn raise_here(&self, py: Python<'_>, thread: u64) -> PyResult<()> {
        interrupt::raise_interrupted(py, &self.code, self.code.running(), thread).map(drop)
    }

    /// Raises an interrupt in the code of this number, at once or as soon as it can be interrupted.
    fn interrupt(&self, py: Python<'_>, number: u64, thread: u64) -> PyResult<()> {
        self.due.store(number, Ordering::Relaxed);
        if interrupt::raise_interrupted(py, &self.code, number, thread)? {
            // Unless the thread has raised it itself.
            let _ = (self.due).compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed);
            let callback = self.callback().as_ref().map(|it| it.clone_ref(py));
            if let Some(callback) = callback {
                callback.call0(py)?;
            }
        }
        Ok(())
    }

    /// Never held while Python code runs.
    fn callback(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        // Only ever replaced as a whole.
        self.callback.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs code of the request `id` on this thread. On a loop's thread it cannot be interrupted: there
/// the task is cancelled.
pub fn within<R>(py: Python<'_>, id: u64, body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    call_thread::with_this(|this| match this {
        Some(thread) => thread.interrupts.within(py, id, body),
        None => body(),
    })
}

/// As [`within`], for the end of a generator that has no consumer any more.
pub fn within_closing<R>(
    py: Python<'_>,
    id: u64,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    within(py, id | CLOSING, body)
}

/// `erlang.uninterruptible` begins.
#[pyfunction]
pub fn _protect(py: Python<'_>) -> PyResult<u64> {
    call_thread::with_this(|this| match this {
        Some(thread) => thread.interrupts.protect(py),
        None => Ok(0),
    })
}

/// `erlang.uninterruptible` ends, with the number that `_protect` has returned.
#[pyfunction]
#[pyo3(signature = (number, /))]
pub fn _resume(py: Python<'_>, number: u64) -> PyResult<()> {
    call_thread::with_this(|this| match this {
        Some(thread) if runs(thread, number) => thread.interrupts.resume(py, number),
        // A generator continues on another thread, or after its call has ended.
        _ => Ok(()),
    })
}

/// Has `callback` called when the call on this thread is interrupted. Returns the one before.
#[pyfunction]
#[pyo3(signature = (callback, /))]
pub fn _on_interrupt(callback: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
    call_thread::with_this(|this| match this {
        Some(thread) => mem::replace(&mut *thread.interrupts.callback(), callback),
        None => None,
    })
}

fn runs(thread: &call_thread::CallThread, number: u64) -> bool {
    let request = thread.request();
    request.is_some_and(|request| request.id == number & !CLOSING)
}

/// `sys.unraisablehook`: passes on to `hook` what is not an interrupt.
///
/// Python ignores exceptions of finalizers (`__del__`) and of callbacks of the collector. An interrupt
/// that was raised there is set again. Python code in this hook would be the next to be interrupted:
/// that is why it is a native function.
#[pyfunction]
#[pyo3(signature = (hook, /))]
pub fn _unraisable_hook(hook: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyCFunction>> {
    let (py, hook) = (hook.py(), hook.unbind());
    PyCFunction::new_closure(py, Some(c"unraisablehook"), None, move |args, _| {
        let py = args.py();
        let unraisable = args.get_item(0)?;
        let class = unraisable.getattr(pyo3::intern!(py, "exc_type"))?;
        if interrupt::is_interrupted_class(&class) {
            return call_thread::with_this(|this| match this {
                Some(thread) => thread.interrupts.raise_here(py, thread.number),
                None => Ok(()),
            });
        }
        hook.call1(py, (unraisable,)).map(drop)
    })
}

/// Interrupts the call of this request if it runs on a call thread. From any thread.
pub fn send(id: u64) {
    post(id);
}

/// As [`send`], and interrupts also the end of a generator.
pub fn again(id: u64) {
    post(id);
    post(id | CLOSING);
}

static INTERRUPTER: Mutex<Option<Sender<u64>>> = Mutex::new(None);

fn post(number: u64) {
    if forked::is_copy() {
        return;
    }
    // Only ever replaced as a whole.
    let mut interrupter = INTERRUPTER.lock().unwrap_or_else(PoisonError::into_inner);
    let sent = (interrupter.as_ref()).is_some_and(|sender| sender.send(number).is_ok());
    if sent {
        return;
    }
    let (sender, numbers) = mpsc::channel();
    // It was just created, and the receiver lives.
    let _ = sender.send(number);
    let started = thread::Builder::new()
        .name("python-interrupts".to_owned())
        .spawn(move || interrupt_all(&numbers));
    // If it cannot be started, `py_calls` tries again while the call runs.
    *interrupter = started.is_ok().then_some(sender);
}

fn interrupt_all(numbers: &Receiver<u64>) {
    for number in numbers {
        let Some(thread) = super::thread_of(number & !CLOSING) else {
            continue;
        };
        // Skipped if Python has ended.
        Python::try_attach(|py| {
            if let Err(error) = thread.interrupts.interrupt(py, number, thread.number) {
                error.write_unraisable(py, None);
            }
        });
        thread.wake();
    }
}
