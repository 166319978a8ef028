//! Accepts connections: many at once, each with its protocol and transport, without a task.
//!
//! `_native.Acceptor` is the reader callback of a listening socket without TLS.

use std::os::fd::OwnedFd;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::extra_info::{Name, Names};
use super::open_file::{FileObject, OpenFile};
use super::python_sockets;
use crate::asyncio::loop_class::class::Loop;
use crate::cpython::context;
use crate::cpython::errors::os_error;
use crate::cpython::method_calls::is_fatal;
use crate::io::stream::transport::StreamTransport;
use crate::io::sys::address::Address;
use crate::io::sys::socket_calls;
use crate::io::sys::socket_calls::Stop;

/// Limited, so that many new connections do not delay the established ones.
const MOST_AT_ONCE: usize = 64;

#[pyclass(frozen, module = "erlang_loop._native")]
pub struct Acceptor {
    owner: Py<Loop>,
    protocol_factory: Py<PyAny>,
    socket: FileObject,
    server: Option<Py<PyAny>>,
    /// The context of the code that created the server, if asyncio passed it.
    context: Option<Py<PyAny>>,
    /// The address of all connections, if the listener is bound to a single one.
    sockname: Option<Name>,
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
        backlog: i64,
        context: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Acceptor {
            owner: r#loop.clone().unbind(),
            protocol_factory: protocol_factory.clone().unbind(),
            socket: FileObject::new(sock)?,
            server: server.map(|server| server.clone().unbind()),
            context: context.map(|context| context.clone().unbind()),
            sockname: one_address(sock.py(), &FileObject::new(sock)?)?,
            // A negative backlog means as many as the system allows.
            most: usize::try_from(backlog).map_or(MOST_AT_ONCE, |most| most.clamp(1, MOST_AT_ONCE)),
        })
    }

    fn __call__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        for _ in 0..this.most {
            let listener = this.socket.fd(py);
            if listener < 0 {
                // The protocol factory closed the server.
                break;
            }
            match socket_calls::accept(listener) {
                Ok((fd, from)) => this.connected(py, fd, &from)?,
                Err(Stop::WouldBlock) => break,
                // The peer closed the connection before it was accepted.
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

    /// Lets the collector find a loop that is dropped with its server: the loop refers to this, and
    /// this to the loop.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.protocol_factory)?;
        self.socket.traverse(visit)?;
        visit.call(&self.server)?;
        visit.call(&self.context)?;
        match &self.sockname {
            Some(name) => name.traverse(visit),
            None => Ok(()),
        }
    }
}

impl Acceptor {
    fn connected(&self, py: Python<'_>, fd: OwnedFd, from: &Address) -> PyResult<()> {
        // Each connection has a context of its own, as its task would have in asyncio.
        let context = match &self.context {
            Some(context) => context::copy(py, context)?,
            None => context::copy_current(py)?,
        };
        context::enter(py, &context)?;
        let passed = self.context.as_ref().map(|_| context.bind(py).clone());
        let made = self.make_transport(py, OpenFile::Own(fd), from, passed);
        context::leave(py, &context)?;
        made.or_else(|error| self.report(py, error))
    }

    /// `context`: of all methods of the protocol.
    fn make_transport(
        &self,
        py: Python<'_>,
        file: OpenFile,
        from: &Address,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let owner = self.owner.bind(py);
        let server = self.server.as_ref().map(|server| server.bind(py));
        let own = match &self.sockname {
            Some(name) => name.clone_ref(py),
            None => Name::of(py, &socket_calls::own_address(file.fd(py)))?,
        };
        let peer = Name::of(py, from)?;
        if python_sockets::replaced(py)?.is_some() {
            return self.make_with_object(py, file, &Names { own, peer }, context);
        }
        let protocol = self.protocol_factory.bind(py).call0()?;
        let names = Names { own, peer };
        StreamTransport::over(owner, file, names, &protocol, None, server, context).map(drop)
    }

    /// Creates it with a socket object of the program's own class.
    fn make_with_object(
        &self,
        py: Python<'_>,
        file: OpenFile,
        names: &Names,
        context: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let connection = python_sockets::of_file(py, file)?;
        let made = self.protocol_factory.bind(py).call0().and_then(|protocol| {
            let owner = self.owner.bind(py);
            let server = self.server.as_ref().map(|server| server.bind(py));
            let extra = names.to_dict(py)?;
            let extra = Some(&extra);
            StreamTransport::create(owner, &connection, &protocol, None, extra, server, context)
        });
        if made.is_err() {
            connection.call_method0("close")?;
        }
        made.map(drop)
    }

    /// A connection that could not be set up closes only itself. As in asyncio, it is reported in
    /// debug mode.
    fn report(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        if is_fatal(py, &error) {
            return Err(error);
        }
        let owner = self.owner.bind(py);
        if owner.get().state.debug.get(py) {
            let context = PyDict::new(py);
            let text = "Error on transport creation for incoming connection";
            context.set_item("message", text)?;
            context.set_item("exception", error.into_value(py))?;
            owner.call_method1("call_exception_handler", (context,))?;
        }
        Ok(())
    }

    /// Out of fds or memory: accepting is retried after a while. Any other error ends the listener.
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

/// `getsockname()` of a TCP listener on one address: its connections have the same.
fn one_address(py: Python<'_>, listener: &FileObject) -> PyResult<Option<Name>> {
    let address = socket_calls::own_address(listener.fd(py));
    match address.as_v4() {
        Some((host, port)) if !host.is_unspecified() => Ok(Some(Name::V4(host, port))),
        // Another family, or bound to all addresses.
        _ => Ok(None),
    }
}
