//! How a connection ends: by its protocol, by an error, or dropped by the program.

use event_loop::Direction;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTypeInfo, intern};

use super::base::Transport;
use super::kind::TransportKind;
use super::server;
use crate::cpython::errors;
use crate::cpython::method_calls::{call1, is_fatal};

impl Transport {
    /// Reports the error (an expected one only in debug mode) and closes the connection.
    pub fn fatal(slf: &Bound<'_, Self>, error: PyErr, message: &str) -> PyResult<()> {
        let py = slf.py();
        match is_fatal(py, &error) {
            true => Err(error),
            false => Self::fail(slf, error.into_value(py).into_any(), message),
        }
    }

    pub fn fail(slf: &Bound<'_, Self>, error: Py<PyAny>, message: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if let Some(owner) = this.owner.cloned(py) {
            let owner = owner.bind(py);
            let expected = this.kind.expects(error.bind(py))?;
            if !expected || owner.get().state.debug.get(py) {
                let name = intern!(py, "_transport_failed");
                owner.call_method1(name, (slf, &error, message, expected))?;
            }
        }
        Self::end_now(slf, error)
    }

    pub fn schedule_lost(slf: &Bound<'_, Self>, error: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.lost.set(py, this.lost.get(py) + 1);
        let callback = slf.getattr(intern!(py, "_call_connection_lost"))?;
        this.enqueue(callback, error.into_bound(py))
    }

    /// Ends the connection after the waiting data is sent.
    pub fn end(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.closing.get(py) {
            return Ok(());
        }
        Self::flush_deferred(slf)?;
        if this.closing.replace(py, true) {
            // Sending failed just now, and has closed it.
            return Ok(());
        }
        let waits = Self::has_output(slf)?;
        // The write end of a pipe is watched for reading to detect that its peer has closed; with
        // waiting data it stays watched.
        if !(waits && this.kind == TransportKind::WritePipe) {
            Self::unwatch(slf, Direction::Read)?;
        }
        if !waits {
            Self::unwatch(slf, Direction::Write)?;
            Self::schedule_lost(slf, py.None())?;
        }
        Ok(())
    }

    /// Ends the connection now: waiting data is dropped.
    pub fn end_now(slf: &Bound<'_, Self>, error: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.lost.get(py) == 0 {
            Self::flush_deferred(slf)?;
        }
        // Checked again, because sending may have failed just now.
        if this.lost.get(py) > 0 {
            return Ok(());
        }
        Self::discard_output(slf)?;
        this.closing.set(py, true);
        Self::unwatch(slf, Direction::Write)?;
        Self::unwatch(slf, Direction::Read)?;
        Self::schedule_lost(slf, error)
    }

    /// Notifies the protocol that the connection is over, closes the file, drops all references.
    pub fn finish(slf: &Bound<'_, Self>, error: &Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let called = match this.protocol.cloned(py) {
            Some(protocol) => {
                let name = intern!(py, "connection_lost");
                call1(protocol.bind(py), name, error.bind(py)).map(drop)
            }
            None => Ok(()),
        };
        let closed = match this.file.take(py) {
            Some(file) => file.close(py),
            None => Ok(()),
        };
        if let Some(owner) = this.owner.cloned(py) {
            let owner = owner.get();
            let listed = owner.transport_of(py, this.fd);
            if listed.is_some_and(|listed| listed.is(slf)) {
                owner._take_transport(py, this.fd);
            }
        }
        let detached = match this.server.take(py) {
            Some(server) => server::detach(server.bind(py), slf),
            None => Ok(()),
        };
        drop((
            this.owner.take(py),
            this.protocol.take(py),
            this.read_context.take(py),
            this.write_context.take(py),
        ));
        called.and(closed).and(detached)
    }

    /// Dropped by the program without `close()`.
    pub fn forgotten(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.is_closed(py) {
            return Ok(());
        }
        let text = format!("unclosed transport {}", errors::shown(slf));
        let file = this.file.take(py);
        let options = PyDict::new(py);
        options.set_item("source", slf)?;
        let warning = (text, PyResourceWarning::type_object(py));
        let warned = match py.import("warnings") {
            Ok(warnings) => warnings
                .call_method("warn", warning, Some(&options))
                .map(drop),
            // Python is finalizing, and cannot warn any more.
            Err(_) => Ok(()),
        };
        if let Some(file) = file {
            file.close(py)?;
        }
        if let Some(server) = this.server.take(py) {
            server::detach(server.bind(py), slf)?;
        }
        warned
    }
}
