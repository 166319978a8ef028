//! `loop.create_connection` to an address: creates the socket, the connection and its transport
//! without Python in between (`bench/`: client_connect). `python/erlang_loop/loop/io/connecting.py`
//! calls this.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

use super::extra_info::{Name, Names};
use super::open_file::OpenFile;
use super::python_sockets;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::futures;
use crate::cpython::errors::os_error;
use crate::io::stream::transport::StreamTransport;
use crate::io::sys::address::Address;
use crate::io::sys::socket_calls;

/// asyncio waits after each of these.
const UNDER_WAY: [i32; 4] = [libc::EINPROGRESS, libc::EALREADY, libc::EAGAIN, libc::EINTR];

/// Begins a connection, if neither `host` nor `port` needs a lookup, else returns `None`:
///
/// - `(transport, protocol, waiter)` if it is established at once, as within a machine,
/// - the socket, if it has to be waited for.
#[pyfunction]
#[pyo3(signature = (event_loop, protocol_factory, host, port, context, /))]
pub fn connect<'py>(
    event_loop: &Bound<'py, Loop>,
    protocol_factory: &Bound<'py, PyAny>,
    host: &Bound<'py, PyAny>,
    port: &Bound<'py, PyAny>,
    context: Option<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = event_loop.py();
    let Some((host, port)) = numbers(host, port) else {
        return Ok(None);
    };
    if python_sockets::replaced(py)?.is_some() {
        return Ok(None);
    }
    let address = SocketAddr::new(host, port);
    let socket = socket_calls::open_stream(&address).map_err(os_error)?;
    let fd = socket.as_raw_fd();
    let file = OpenFile::Own(socket);
    if !is_connected(py, fd, &address)? {
        return python_sockets::of_file(py, file).map(Some);
    }
    let protocol = protocol_factory.call0()?;
    let names = Names {
        own: Name::of(py, &socket_calls::own_address(fd))?,
        peer: peer(py, fd, host, &address)?,
    };
    let waiter = futures::create_future(event_loop)?;
    let transport = StreamTransport::over(
        event_loop,
        file,
        names,
        &protocol,
        Some(&waiter),
        None,
        context,
    )?;
    let made = (transport, protocol, waiter).into_pyobject(py)?;
    Ok(Some(made.into_any()))
}

/// For a host that is an address as text and a port that is a number.
fn numbers(host: &Bound<'_, PyAny>, port: &Bound<'_, PyAny>) -> Option<(IpAddr, u16)> {
    let host = host.cast_exact::<PyString>().ok()?;
    let port: u16 = port.cast_exact::<PyInt>().ok()?.extract().ok()?;
    let host = host.to_str().ok()?.parse().ok()?;
    (port > 0).then_some((host, port))
}

/// False if it has to be waited for.
fn is_connected(py: Python<'_>, fd: RawFd, address: &SocketAddr) -> PyResult<bool> {
    let mut code = socket_calls::connect(fd, address);
    if code == libc::EINPROGRESS {
        // A connection inside this machine is established by now: checking costs less than waiting
        // for the event.
        code = socket_calls::connect(fd, address);
        if ![0, libc::EISCONN].contains(&code) && !UNDER_WAY.contains(&code) {
            let text = format!(
                "Connect call failed {}",
                Address::Internet(*address).to_python(py)?
            );
            return Err(PyOSError::new_err((code, text)));
        }
    }
    match code {
        0 | libc::EISCONN => Ok(true),
        code if UNDER_WAY.contains(&code) => Ok(false),
        code => Err(os_error(code)),
    }
}

/// The result of `getpeername()`: for most IPv4 addresses that is known.
fn peer(py: Python<'_>, fd: RawFd, host: IpAddr, address: &SocketAddr) -> PyResult<Name> {
    match host.is_ipv4() && !host.is_unspecified() {
        true => Name::of(py, &Address::Internet(*address)),
        false => Name::of(py, &socket_calls::peer_address(fd)),
    }
}
