//! Writing: the first write of a callback is sent at once; further ones wait for the callback's end
//! and are sent together, and so is the first where several are usual. What the socket does not
//! accept waits until it is writable.

use event_loop::Direction;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::transport::StreamTransport;
use super::written::{as_bytes, piece_as_bytes};
use crate::asyncio::handles::io_object::IoObject;
use crate::cpython::errors::os_error;
use crate::io::sys::socket_calls;
use crate::io::sys::socket_calls::Stop;
use crate::io::transports::base::Transport;

const WRITE_ERROR: &str = "Fatal write error on socket transport";

/// asyncio starts to log writes to a lost connection at this many.
pub const COMPLAIN_AFTER: u32 = 5;

impl StreamTransport {
    pub fn write_data(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let base = slf.as_super().get();
        let bytes = as_bytes(data)?;
        this.check_writable(py, "write")?;
        if bytes.as_bytes().is_empty() {
            return Ok(());
        }
        if base.lost.get(py) > 0 {
            return write_after_loss(py, base);
        }
        let owner = base.owner(py)?;
        let callback = owner.get().callback_number(py);
        if !Self::has_output(slf)? {
            let first = this.wrote_in.replace(py, callback) != callback;
            // If the loop does not run, there is no end of a callback.
            let at_once = first && !this.writes_often.get(py) || !owner.get().is_running(py);
            if at_once {
                return Self::send_now(slf, bytes);
            }
            this.writes_often.set(py, !first);
            this.flush_pending.set(py, true);
            owner.get().flush_later(py, IoObject::new(slf.as_super()));
        } else {
            this.writes_often.set(py, true);
        }
        this.queue
            .with(py, |queue| queue.push(py, bytes.unbind(), 0));
        Self::flush_above_limit(slf)
    }

    fn send_now(slf: &Bound<'_, Self>, bytes: Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let base = slf.as_super();
        let sent = match socket_calls::send(base.get().live_fd(py), bytes.as_bytes()) {
            Ok(sent) if sent == bytes.as_bytes().len() => return Ok(()),
            Ok(sent) => sent,
            Err(Stop::WouldBlock) => 0,
            Err(Stop::Failed(code)) => return Transport::fatal(base, os_error(code), WRITE_ERROR),
        };
        let waiting = slf.get().queue.with(py, |queue| {
            queue.push(py, bytes.unbind(), sent);
            queue.len()
        });
        Transport::watch(base, Direction::Write)?;
        Transport::pause_above(base, waiting)
    }

    pub fn write_list(slf: &Bound<'_, Self>, list: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let base = slf.as_super();
        this.check_writable(py, "writelines")?;
        let mut pieces = Vec::new();
        for piece in list.try_iter()? {
            pieces.push(piece_as_bytes(&piece?)?.unbind());
        }
        if pieces.is_empty() {
            return Ok(());
        }
        if base.get().lost.get(py) > 0 {
            return write_after_loss(py, base.get());
        }
        // With data that waits for the socket, sending now would only fail again.
        let blocked = Self::has_output(slf)? && !this.flush_pending.get(py);
        this.queue.with(py, |queue| {
            for piece in pieces {
                queue.push(py, piece, 0);
            }
        });
        if !blocked {
            Self::send_queue(slf)?;
        }
        let waiting = this.queue.with(py, |queue| queue.len());
        Transport::pause_above(base, waiting)
    }

    /// A queue above its limit is sent before the protocol is asked to pause: only what the socket
    /// does not accept counts.
    fn flush_above_limit(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let limit = slf.as_super().get().limits.get(py).high;
        if this.queue.with(py, |queue| queue.len()) <= limit {
            return Ok(());
        }
        Self::flush_deferred(slf)?;
        let waiting = this.queue.with(py, |queue| queue.len());
        Transport::pause_above(slf.as_super(), waiting)
    }

    /// Sends what waits only for the end of the callback.
    pub fn flush_deferred(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().flush_pending.get(slf.py()) {
            true => Self::send_queue(slf),
            false => Ok(()),
        }
    }

    /// Sends as much as possible; the rest is sent when the socket is writable.
    fn send_queue(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        slf.get().flush_pending.set(py, false);
        if slf.as_super().get().lost.get(py) > 0 {
            return Ok(());
        }
        match Self::send_some(slf) {
            Ok(()) => Ok(()),
            Err(Stop::WouldBlock) => Transport::watch(slf.as_super(), Direction::Write),
            Err(Stop::Failed(code)) => Self::write_failed(slf, os_error(code)),
        }
    }

    fn send_some(slf: &Bound<'_, Self>) -> Result<(), Stop> {
        let py = slf.py();
        let fd = slf.as_super().get().live_fd(py);
        // Dropped after the queue is consistent again.
        let mut gone = Vec::new();
        slf.get().queue.with(py, |queue| {
            queue.send(py, fd, socket_calls::send_pieces, &mut gone)
        })
    }

    fn write_failed(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        Transport::unwatch(slf.as_super(), Direction::Write)?;
        Self::discard_output(slf)?;
        let value = error.clone_ref(py).into_value(py);
        Transport::fatal(slf.as_super(), error, WRITE_ERROR)?;
        match slf.get().empty_waiter.cloned(py) {
            Some(waiter) => waiter.call_method1(py, "set_exception", (value,)).map(drop),
            None => Ok(()),
        }
    }

    /// The socket is writable.
    pub fn write_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let base = slf.as_super();
        if let Err(Stop::Failed(code)) = Self::send_some(slf) {
            return Self::write_failed(slf, os_error(code));
        }
        // The protocol may write more at once.
        let waiting = this.queue.with(py, |queue| queue.len());
        Transport::resume_below(base, waiting)?;
        if Self::has_output(slf)? {
            return Ok(());
        }
        Transport::unwatch(base, Direction::Write)?;
        if let Some(waiter) = this.empty_waiter.cloned(py) {
            waiter.call_method1(py, "set_result", (py.None(),))?;
        }
        if base.get().closing.get(py) {
            base.get().lost.set(py, 1);
            let name = intern!(py, "_call_connection_lost");
            return slf.call_method1(name, (py.None(),)).map(drop);
        }
        match this.eof.get(py) {
            true => Self::shutdown(slf),
            false => Ok(()),
        }
    }

    fn check_writable(&self, py: Python<'_>, method: &str) -> PyResult<()> {
        if self.eof.get(py) {
            return Err(PyRuntimeError::new_err(format!(
                "Cannot call {method}() after write_eof()"
            )));
        }
        if self.empty_waiter.look(py, |waiter| waiter.is_some()) {
            return Err(PyRuntimeError::new_err(format!(
                "unable to {method}; sendfile is in progress"
            )));
        }
        Ok(())
    }
}

/// A write to a lost connection is dropped, as in asyncio; repeated ones are logged.
#[cold]
pub fn write_after_loss(py: Python<'_>, base: &Transport) -> PyResult<()> {
    let lost = base.lost.get(py);
    base.lost.set(py, lost.saturating_add(1));
    if lost >= COMPLAIN_AFTER {
        let logger = py.import("asyncio.log")?.getattr("logger")?;
        logger.call_method1("warning", ("socket.send() raised exception.",))?;
    }
    Ok(())
}
