//! Accepting connections: many at once, each with its protocol and transport, without a task.
//!
//! `_native.Acceptor` is the reader callback of a listening socket that has no TLS.

use std::net::Ipv4Addr;
use std::os::fd::RawFd;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PyTuple};

use super::address::Address;
use super::open_file::OpenFile;
use super::protocol::is_fatal;
use super::socket_calls::{self, Stop};
use super::stream::StreamTransport;
use crate::python::context;
use crate::python::fd_callbacks::os_error;
use crate::python::loop_class::Loop;

/// So that a flood of connections does not keep the established ones waiting.
const MOST_AT_ONCE: usize = 64;

#[pyclass(frozen, module = "erlang_loop._native")]
pub struct Acceptor {
    owner: Py<Loop>,
    protocol_factory: Py<PyAny>,
    socket: OpenFile,
    server: Option<Py<PyAny>>,
    /// What `socket.socket(family, type, proto, fileno)` gets for each connection.
    family: Py<PyAny>,
    kind: Py<PyAny>,
    protocol: Py<PyAny>,
    /// The address of all connections, if the listener is bound to just one.
    sockname: Option<Py<PyAny>>,
    most: usize,
}

#[pymethods]
impl Acceptor {
    #[new]
    fn new(
        r#loop: &Bound<'_, Loop>,
        protocol_factory: &Bound<'_, PyAny>,
        sock: &Bound<'_, PyAny>,
        server: Option<&Bound<'_, PyAny>>,
        backlog: usize,
    ) -> PyResult<Self> {
        Ok(Acceptor {
            owner: r#loop.clone().unbind(),
            protocol_factory: protocol_factory.clone().unbind(),
            socket: OpenFile::new(sock)?,
            server: server.map(|server| server.clone().unbind()),
            family: sock.getattr("family")?.unbind(),
            kind: sock.getattr("type")?.unbind(),
            protocol: sock.getattr("proto")?.unbind(),
            sockname: one_address(sock)?,
            most: backlog.clamp(1, MOST_AT_ONCE),
        })
    }

    fn __call__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        for _ in 0..this.most {
            let mut from = Address::empty();
            match socket_calls::accept(this.socket.fd(py), &mut from) {
                Ok(fd) => this.connected(py, fd, &from)?,
                Err(Stop::WouldBlock) => break,
                // It was gone before we came.
                Err(Stop::Failed(libc::ECONNABORTED)) => {}
                Err(Stop::Failed(code)) => return this.failed(slf, code),
            }
        }
        Ok(())
    }

    /// The listening socket.
    #[getter]
    fn sock(&self, py: Python<'_>) -> Py<PyAny> {
        self.socket.object().clone_ref(py)
    }
}

impl Acceptor {
    fn connected(&self, py: Python<'_>, fd: RawFd, from: &Address) -> PyResult<()> {
        static SOCKET: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let module = SOCKET.get_or_try_init(py, || py.import("socket").map(Bound::unbind))?;
        let class = module.bind(py).getattr(intern!(py, "socket"))?;
        // A socket made with this type knows that it does not block; no call is needed.
        let kind = self.kind.extract::<i32>(py)? | libc::SOCK_NONBLOCK;
        let arguments = (&self.family, kind, &self.protocol, fd);
        let connection = match class.call1(arguments) {
            Ok(connection) => connection,
            Err(error) => {
                crate::beam::fd::close(fd);
                return Err(error);
            }
        };
        // A context of its own for each connection, as its task would have in asyncio.
        let context = context::copy_current(py)?;
        context::enter(py, &context)?;
        let made = self.make_transport(py, &connection, from);
        context::leave(py, &context)?;
        match made {
            Ok(()) => Ok(()),
            Err(error) => {
                connection.call_method0("close")?;
                self.report(py, error)
            }
        }
    }

    fn make_transport(
        &self,
        py: Python<'_>,
        connection: &Bound<'_, PyAny>,
        from: &Address,
    ) -> PyResult<()> {
        let protocol = self.protocol_factory.bind(py).call0()?;
        let extra = PyDict::new(py);
        extra.set_item(intern!(py, "peername"), from.to_python(py)?)?;
        if let Some(sockname) = &self.sockname {
            extra.set_item(intern!(py, "sockname"), sockname)?;
        }
        let owner = self.owner.bind(py);
        let server = self.server.as_ref().map(|server| server.bind(py));
        StreamTransport::create(owner, connection, &protocol, None, Some(&extra), server).map(drop)
    }

    /// A connection that could not be set up closes only itself. asyncio speaks of it in debug
    /// mode.
    fn report(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        if is_fatal(py, &error) {
            return Err(error);
        }
        let owner = self.owner.bind(py);
        if owner.get().debug.get(py) {
            let context = PyDict::new(py);
            let text = "Error on transport creation for incoming connection";
            context.set_item("message", text)?;
            context.set_item("exception", error.into_value(py))?;
            owner.call_method1("call_exception_handler", (context,))?;
        }
        Ok(())
    }

    /// Out of fds or memory: tried again in a while. Anything else is the listener's end.
    fn failed(&self, slf: &Bound<'_, Self>, code: i32) -> PyResult<()> {
        let py = slf.py();
        let error = os_error(code);
        let passing = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
        if !passing.contains(&code) {
            return Err(error);
        }
        let arguments = PyTuple::new(py, [slf.as_any(), error.into_value(py).bind(py).as_any()])?;
        let owner = self.owner.bind(py);
        owner.call_method1("_accept_later", arguments).map(drop)
    }
}

/// `getsockname()` of a TCP listener on one address: then its connections have the same.
fn one_address(sock: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let Ok(name) = sock.call_method0("getsockname") else {
        return Ok(None);
    };
    let host = name.get_item(0).and_then(|host| host.extract::<String>());
    match host.ok().and_then(|host| host.parse::<Ipv4Addr>().ok()) {
        Some(address) if !address.is_unspecified() => Ok(Some(name.unbind())),
        // Of other families, or bound to all addresses.
        _ => Ok(None),
    }
}
