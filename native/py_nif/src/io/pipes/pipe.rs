//! What both ends of a pipe have in common: `_native.PipeTransport`.

use std::os::fd::RawFd;

use pyo3::prelude::*;

use crate::io::transports::base::Transport;

#[pyclass(extends = Transport, subclass, frozen, module = "erlang_loop._native")]
pub struct PipeTransport;

#[pymethods]
impl PipeTransport {
    #[pyo3(signature = (exc=None))]
    fn _close(slf: &Bound<'_, Self>, exc: Option<Py<PyAny>>) -> PyResult<()> {
        let exc = exc.unwrap_or_else(|| slf.py().None());
        Transport::end_now(slf.as_super(), exc)
    }

    #[getter(_pipe)]
    fn pipe(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        slf.as_super().get().file_object(slf.py())
    }

    #[setter(_pipe)]
    fn set_pipe(slf: &Bound<'_, Self>, pipe: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        Transport::set_file_object(slf.as_super(), pipe)
    }

    #[getter(_fileno)]
    fn fileno(slf: &Bound<'_, Self>) -> RawFd {
        slf.as_super().get().fd
    }
}
