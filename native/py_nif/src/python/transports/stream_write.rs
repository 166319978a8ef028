//! Writing: the first write of a callback is sent at once; further ones wait for its end and go
//! together. What the socket does not take waits for it to be writable.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView};

use super::protocol::{call0, is_fatal};
use super::socket_calls::{self, Stop};
use super::stream::StreamTransport;
use crate::python::fd_callbacks::os_error;

const WRITE_ERROR: &str = "Fatal write error on socket transport";

/// asyncio starts to complain about writes to a lost connection at this many.
const COMPLAIN_AFTER: u32 = 5;

impl StreamTransport {
    pub(super) fn write_data(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let bytes = as_bytes(data)?;
        this.check_writable(py, "write")?;
        if bytes.as_bytes().is_empty() {
            return Ok(());
        }
        if this.lost.get(py) > 0 {
            return this.write_after_loss(py);
        }
        let owner = this.owner(py)?;
        let callback = owner.get().callback_number(py);
        let queued = this.queue.with(py, |queue| !queue.is_empty());
        if !queued && this.wrote_in.replace(py, callback) != callback {
            return Self::send_now(slf, bytes);
        }
        if !queued {
            this.flush_pending.set(py, true);
            owner.get().flush_later(py, slf.clone().unbind());
        }
        this.queue.with(py, |queue| queue.push(py, bytes.unbind(), 0));
        Self::maybe_pause_or_flush(slf)
    }

    fn send_now(slf: &Bound<'_, Self>, bytes: Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let sent = match socket_calls::send(this.live_fd(py), bytes.as_bytes()) {
            Ok(sent) if sent == bytes.as_bytes().len() => return Ok(()),
            Ok(sent) => sent,
            Err(Stop::WouldBlock) => 0,
            Err(Stop::Failed(code)) => return Self::fatal(slf, os_error(code), WRITE_ERROR),
        };
        this.queue.with(py, |queue| queue.push(py, bytes.unbind(), sent));
        Self::watch_write(slf)?;
        Self::maybe_pause_protocol(slf)
    }

    pub(super) fn write_list(slf: &Bound<'_, Self>, list: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.check_writable(py, "writelines")?;
        let mut pieces = Vec::new();
        for piece in list.try_iter()? {
            pieces.push(as_bytes(&piece?)?.unbind());
        }
        if pieces.is_empty() {
            return Ok(());
        }
        if this.lost.get(py) > 0 {
            return this.write_after_loss(py);
        }
        let waiting = this.writing.get(py);
        this.queue.with(py, |queue| {
            for piece in pieces {
                queue.push(py, piece, 0);
            }
        });
        if !waiting {
            Self::send_queue(slf)?;
        }
        Self::maybe_pause_protocol(slf)
    }

    /// A queue above its limit is sent before the protocol is told to pause: only what the
    /// socket does not take counts.
    fn maybe_pause_or_flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let size = this.queue.with(py, |queue| queue.len());
        if size > this.limits.get(py).high {
            Self::flush_deferred(slf)?;
            Self::maybe_pause_protocol(slf)?;
        }
        Ok(())
    }

    /// Sends what waits only for the end of the callback.
    pub fn flush_deferred(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().flush_pending.replace(py, false) {
            Self::send_queue(slf)?;
        }
        Ok(())
    }

    /// Sends what it can; the rest is sent when the socket is writable.
    fn send_queue(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.flush_pending.set(py, false);
        if this.lost.get(py) > 0 {
            return Ok(());
        }
        let fd = this.live_fd(py);
        let mut gone = Vec::new();
        let sent = this.queue.with(py, |queue| queue.send(py, fd, &mut gone));
        drop(gone);
        match sent {
            Ok(()) => Ok(()),
            Err(Stop::WouldBlock) => Self::watch_write(slf),
            Err(Stop::Failed(code)) => Self::write_failed(slf, os_error(code)),
        }
    }

    fn write_failed(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.unwatch_write(py);
        drop(this.queue.with(py, |queue| queue.clear()));
        let waiter = this.empty_waiter.cloned(py);
        let value = error.clone_ref(py).into_value(py);
        Self::fatal(slf, error, WRITE_ERROR)?;
        if let Some(waiter) = waiter {
            waiter.call_method1(py, "set_exception", (value,))?;
        }
        Ok(())
    }

    /// The socket takes more.
    pub(super) fn write_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.lost.get(py) > 0 {
            return Ok(());
        }
        let fd = this.live_fd(py);
        let mut gone = Vec::new();
        let sent = this.queue.with(py, |queue| queue.send(py, fd, &mut gone));
        drop(gone);
        if let Err(Stop::Failed(code)) = sent {
            return Self::write_failed(slf, os_error(code));
        }
        // It may write more at once.
        Self::maybe_resume_protocol(slf)?;
        if !this.queue.with(py, |queue| queue.is_empty()) {
            return Ok(());
        }
        this.unwatch_write(py);
        if let Some(waiter) = this.empty_waiter.cloned(py) {
            waiter.call_method1(py, "set_result", (py.None(),))?;
        }
        if this.closing.get(py) {
            this.lost.set(py, this.lost.get(py) + 1);
            return Self::_call_connection_lost(slf, py.None());
        }
        match this.eof.get(py) {
            true => this.shutdown(py),
            false => Ok(()),
        }
    }

    fn check_writable(&self, py: Python<'_>, method: &str) -> PyResult<()> {
        if self.eof.get(py) {
            return Err(PyRuntimeError::new_err(format!(
                "Cannot call {method}() after write_eof()"
            )));
        }
        if self.empty_waiter.with(py, |waiter| waiter.is_some()) {
            return Err(PyRuntimeError::new_err(format!(
                "unable to {method}; sendfile is in progress"
            )));
        }
        Ok(())
    }

    #[cold]
    fn write_after_loss(&self, py: Python<'_>) -> PyResult<()> {
        let lost = self.lost.get(py);
        self.lost.set(py, lost.saturating_add(1));
        if lost >= COMPLAIN_AFTER {
            let logger = py.import("asyncio.log")?.getattr("logger")?;
            logger.call_method1("warning", ("socket.send() raised exception.",))?;
        }
        Ok(())
    }

    // ---- flow control ----

    pub(super) fn maybe_pause_protocol(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let size = this.queue.with(py, |queue| queue.len());
        if size <= this.limits.get(py).high || this.protocol_paused.replace(py, true) {
            return Ok(());
        }
        Self::tell_protocol(slf, "pause_writing")
    }

    fn maybe_resume_protocol(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let size = this.queue.with(py, |queue| queue.len());
        if !this.protocol_paused.get(py) || size > this.limits.get(py).low {
            return Ok(());
        }
        this.protocol_paused.set(py, false);
        Self::tell_protocol(slf, "resume_writing")
    }

    fn tell_protocol(slf: &Bound<'_, Self>, method: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(protocol) = this.protocol.cloned(py) else {
            return Ok(());
        };
        let name = match method {
            "pause_writing" => intern!(py, "pause_writing"),
            _ => intern!(py, "resume_writing"),
        };
        let Err(error) = call0(protocol.bind(py), name) else {
            return Ok(());
        };
        if is_fatal(py, &error) {
            return Err(error);
        }
        let context = PyDict::new(py);
        context.set_item("message", format!("protocol.{method}() failed"))?;
        context.set_item("exception", error.into_value(py))?;
        context.set_item("transport", slf)?;
        context.set_item("protocol", protocol)?;
        let owner = this.owner(py)?;
        owner.call_method1("call_exception_handler", (context,)).map(drop)
    }
}

/// What is written, as an object that cannot change while it waits.
fn as_bytes<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let py = data.py();
    if data.is_instance_of::<PyByteArray>() || data.is_instance_of::<PyMemoryView>() {
        return Ok(py
            .get_type::<PyBytes>()
            .call1((data,))?
            .cast_into::<PyBytes>()?);
    }
    Err(PyTypeError::new_err(format!(
        "data argument must be a bytes-like object, not {}",
        data.get_type().name()?.repr()?
    )))
}
