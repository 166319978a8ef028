//! TLS: how records move between a stream transport and an application's protocol.
//!
//! Handshake, shutdown, errors and flow control are asyncio's own `SSLProtocol`, from which
//! `python/erlang_loop/loop/io/tls.py` inherits; OpenSSL is used through Python's `ssl`. This folder
//! handles each message of an established connection, with the same steps in the same order, but
//! without Python frames: `reading` and `writing` (`bench/`: tls).
//!
//! The state is in asyncio's attributes, where both sides read and change it.

pub mod reading;
pub mod states;
pub mod writing;

use std::ffi::CStr;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::cpython::fast_method::{CallArguments, FastMethod, FastMethod0, install, install0};

/// The native base of `erlang_loop.loop.io.tls.TlsProtocol`.
#[pyclass(subclass, frozen, module = "erlang_loop._native")]
pub struct TlsPath;

#[pymethods]
impl TlsPath {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        // They are for `__init__`, which is asyncio's.
        let _ = (args, kwargs);
        TlsPath
    }
}

/// The native base of `erlang_loop.loop.io.tls.ErlangSSLTransport`. It has no fields: asyncio's
/// transports have slots, and a class cannot have both.
#[pyclass(subclass, frozen, module = "erlang_loop._native")]
pub struct TlsWriter;

#[pymethods]
impl TlsWriter {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        // They are for `__init__`, which is asyncio's.
        let _ = (args, kwargs);
        TlsWriter
    }
}

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<TlsPath>()?;
    module.add_class::<TlsWriter>()?;
    install0::<DoRead>(&py.get_type::<TlsPath>())?;
    install0::<ProcessOutgoing>(&py.get_type::<TlsPath>())?;
    install::<Write>(&py.get_type::<TlsWriter>())
}

struct DoRead;

impl FastMethod0 for DoRead {
    type Class = TlsPath;
    const NAME: &'static CStr = c"_do_read";
    const DOC: &'static CStr = c"_do_read($self)\n--\n\nDecrypts what has come.";

    fn call<'py>(slf: &Bound<'py, TlsPath>) -> PyResult<Bound<'py, PyAny>> {
        reading::do_read(slf)?;
        Ok(slf.py().None().into_bound(slf.py()))
    }
}

struct ProcessOutgoing;

impl FastMethod0 for ProcessOutgoing {
    type Class = TlsPath;
    const NAME: &'static CStr = c"_process_outgoing";
    const DOC: &'static CStr = c"_process_outgoing($self)\n--\n\nSends what is encrypted.";

    fn call<'py>(slf: &Bound<'py, TlsPath>) -> PyResult<Bound<'py, PyAny>> {
        writing::process_outgoing(slf)?;
        Ok(slf.py().None().into_bound(slf.py()))
    }
}

struct Write;

impl FastMethod for Write {
    type Class = TlsWriter;
    const NAME: &'static CStr = c"write";
    const DOC: &'static CStr = c"write($self, data)\n--\n\nSends data, encrypted.";

    fn call<'py>(
        slf: &Bound<'py, TlsWriter>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [data] = arguments.exactly("write", ["data"])?;
        writing::write(slf.as_any(), &data)?;
        Ok(slf.py().None().into_bound(slf.py()))
    }
}
