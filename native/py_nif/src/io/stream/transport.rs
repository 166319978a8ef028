//! A connected byte stream over a socket: `_native.StreamTransport`. It does what asyncio's
//! `_SelectorSocketTransport` does.

use pyo3::exceptions::{PyConnectionError, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::write_queue::WriteQueue;
use crate::asyncio::loop_class::class::Loop;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::errors::os_error;
use crate::io::sys::socket_calls::{set_nodelay, shutdown_write};
use crate::io::transports::base::Transport;
use crate::io::transports::extra_info::{ExtraInfo, Names};
use crate::io::transports::kind::TransportKind;
use crate::io::transports::open_file::OpenFile;

#[pyclass(extends = Transport, frozen, module = "erlang_loop._native")]
#[derive(Default)]
pub struct StreamTransport {
    pub queue: GilCell<WriteQueue>,
    pub eof: GilSlot<bool>,
    /// The callback that sent last; further writes in it wait for its end.
    pub wrote_in: GilSlot<u64>,
    /// The last callback that wrote did so several times, and so will the next.
    pub writes_often: GilSlot<bool>,
    /// The last message was large, and so will be the next.
    pub large: GilSlot<bool>,
    pub flush_pending: GilSlot<bool>,
    /// Notifies `sendfile` that everything written has been sent.
    pub empty_waiter: GilSlot<Option<Py<PyAny>>>,
}

impl StreamTransport {
    pub fn create<'py>(
        owner: &Bound<'py, Loop>,
        sock: &Bound<'py, PyAny>,
        protocol: &Bound<'py, PyAny>,
        waiter: Option<&Bound<'py, PyAny>>,
        extra: Option<&Bound<'py, PyDict>>,
        server: Option<&Bound<'py, PyAny>>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let base = Transport::build(TransportKind::Stream, owner, sock, protocol, extra, server)?;
        Self::begin(base, owner.py(), waiter, context)
    }

    /// For a connection that we opened or accepted.
    pub fn over<'py>(
        owner: &Bound<'py, Loop>,
        file: OpenFile,
        names: Names,
        protocol: &Bound<'py, PyAny>,
        waiter: Option<&Bound<'py, PyAny>>,
        server: Option<&Bound<'py, PyAny>>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let info = ExtraInfo::of_names(names);
        let base = Transport::over(TransportKind::Stream, owner, file, info, protocol, server)?;
        Self::begin(base, owner.py(), waiter, context)
    }

    fn begin<'py>(
        mut base: Transport,
        py: Python<'py>,
        waiter: Option<&Bound<'py, PyAny>>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        set_nodelay(base.fd);
        base.context = context.map(Bound::unbind);
        let stream = PyClassInitializer::from(base).add_subclass(StreamTransport::default());
        let stream = Bound::new(py, stream)?;
        Transport::begin(stream.as_super(), waiter)?;
        Ok(stream)
    }

    pub fn has_output(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(slf.get().queue.with(slf.py(), |queue| !queue.is_empty()))
    }

    /// Bytes that the socket has not accepted yet.
    pub fn waiting_size(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Self::flush_deferred(slf)?;
        Ok(slf.get().queue.with(slf.py(), |queue| queue.len()))
    }

    pub fn discard_output(slf: &Bound<'_, Self>) -> PyResult<()> {
        drop(slf.get().queue.with(slf.py(), |queue| queue.clear()));
        Ok(())
    }

    pub fn shutdown(slf: &Bound<'_, Self>) -> PyResult<()> {
        shutdown_write(slf.as_super().get().live_fd(slf.py())).map_err(os_error)
    }
}

#[pymethods]
impl StreamTransport {
    #[new]
    #[pyo3(signature = (r#loop, sock, protocol, waiter=None, extra=None, server=None, context=None))]
    fn new<'py>(
        r#loop: &Bound<'py, Loop>,
        sock: &Bound<'py, PyAny>,
        protocol: &Bound<'py, PyAny>,
        waiter: Option<&Bound<'py, PyAny>>,
        extra: Option<&Bound<'py, PyDict>>,
        server: Option<&Bound<'py, PyAny>>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        Self::create(r#loop, sock, protocol, waiter, extra, server, context)
    }

    fn write_eof(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if slf.as_super().get().closing.get(py) || this.eof.get(py) {
            return Ok(());
        }
        Self::flush_deferred(slf)?;
        if slf.as_super().get().closing.get(py) {
            // Sending failed.
            return Ok(());
        }
        this.eof.set(py, true);
        match Self::has_output(slf)? {
            true => Ok(()),
            false => Self::shutdown(slf),
        }
    }

    fn can_write_eof(&self) -> bool {
        true
    }

    fn get_write_buffer_limits(slf: &Bound<'_, Self>) -> (usize, usize) {
        slf.as_super().get().write_limits(slf.py())
    }

    #[pyo3(signature = (high=None, low=None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<&Bound<'_, PyAny>>,
        low: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let size = Self::waiting_size(slf)?;
        Transport::set_write_limits(slf.as_super(), high, low, size)
    }

    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::end_now(slf.as_super(), slf.py().None())
    }

    fn _force_close(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        Transport::end_now(slf.as_super(), exc)
    }

    fn _call_connection_lost(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        let py = slf.py();
        let finished = Transport::finish(slf.as_super(), &exc);
        if let Some(waiter) = slf.get().empty_waiter.cloned(py) {
            let error = PyConnectionError::new_err("Connection is closed by peer");
            waiter.call_method1(py, "set_exception", (error.into_value(py),))?;
        }
        finished
    }

    fn _make_empty_waiter(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if this.empty_waiter.look(py, |waiter| waiter.is_some()) {
            return Err(PyRuntimeError::new_err("Empty waiter is already set"));
        }
        Self::flush_deferred(slf)?;
        let waiter = slf
            .as_super()
            .get()
            .owner(py)?
            .call_method0("create_future")?;
        if !Self::has_output(slf)? {
            waiter.call_method1("set_result", (py.None(),))?;
        }
        this.empty_waiter.replace(py, Some(waiter.clone().unbind()));
        Ok(waiter.unbind())
    }

    fn _reset_empty_waiter(&self, py: Python<'_>) {
        drop(self.empty_waiter.take(py));
    }

    #[getter(_eof)]
    fn eof_attribute(&self, py: Python<'_>) -> bool {
        self.eof.get(py)
    }

    #[classattr]
    fn _start_tls_compatible() -> bool {
        true
    }

    #[getter]
    fn _sendfile_compatible(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let modes = py.import("asyncio.constants")?.getattr("_SendfileMode")?;
        Ok(modes.getattr("TRY_NATIVE")?.unbind())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.queue.try_visit(|queue| queue.traverse(visit))?;
        self.empty_waiter.visit(|waiter| visit.call(waiter))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.empty_waiter.take(py));
        drop(self.queue.with(py, |queue| queue.clear()));
    }
}
