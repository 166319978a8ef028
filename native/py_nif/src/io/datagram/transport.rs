//! Datagrams over a socket (UDP, Unix): `_native.DatagramTransport`, asyncio's
//! `_SelectorDatagramTransport`.

use std::collections::VecDeque;

use event_loop::Direction;
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError, PyOSError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::peers::Peers;
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::read_buffer::READ_SIZE;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::errors::os_error;
use crate::cpython::method_calls::{call1, call2};
use crate::io::stream::writing::write_after_loss;
use crate::io::stream::written::as_bytes;
use crate::io::sys::address::{Address, from_python_v4};
use crate::io::sys::socket_calls;
use crate::io::sys::socket_calls::{DATAGRAMS, Stop};
use crate::io::transports::base::Transport;
use crate::io::transports::kind::TransportKind;

/// What asyncio counts for a waiting datagram in addition to its data.
const HEADER: usize = 8;

const FATAL: &str = "Fatal write error on datagram transport";

/// How many receive calls are made per turn at most, because other callbacks wait, too.
const BATCHES: usize = 8;

/// A datagram that waits, and its destination.
type Unsent = (Py<PyBytes>, Option<Py<PyAny>>);

#[pyclass(extends = Transport, frozen, module = "erlang_loop._native")]
pub struct DatagramTransport {
    /// The one peer that the endpoint was created for.
    address: Option<Py<PyAny>>,
    /// The socket itself is connected: it accepts no addresses.
    connected: bool,
    family: Family,
    peers: Peers,
    queue: GilCell<VecDeque<Unsent>>,
    size: GilCell<usize>,
}

/// What is known about the addresses of a socket, and about its datagrams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Datagrams have at most 64 KiB.
    Internet,
    Unix,
    /// Netlink, CAN, Bluetooth...: Python's `socket` handles their addresses.
    Other,
}

impl Family {
    fn of(sock: &Bound<'_, PyAny>) -> PyResult<Self> {
        let family: libc::c_int = sock.getattr(intern!(sock.py(), "family"))?.extract()?;
        Ok(match family {
            libc::AF_INET | libc::AF_INET6 => Family::Internet,
            libc::AF_UNIX => Family::Unix,
            _ => Family::Other,
        })
    }
}

/// What has come, and from where.
type Received<'py> = (Bound<'py, PyBytes>, Address);

/// The result of sending a datagram.
enum Sent {
    Done,
    Blocked,
    /// A network error, which is reported to the protocol.
    Refused(PyErr),
}

impl DatagramTransport {
    pub fn has_output(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(slf.get().queue.with(slf.py(), |queue| !queue.is_empty()))
    }

    pub fn discard_output(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        slf.get().size.set(py, 0);
        drop(slf.get().queue.replace(py, VecDeque::new()));
        Ok(())
    }

    pub fn read_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        for _ in 0..BATCHES {
            if !Self::read_batch(slf)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns `true` if there may be more.
    fn read_batch(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let base = slf.as_super();
        let owner = base.get().owner(py)?;
        if slf.get().family == Family::Other {
            let read = slf.get().read_by_object(base);
            return read.or_else(|error| {
                Loop::callback_failed(&owner, base.as_any(), error).map(|()| false)
            });
        }
        let datagrams = match slf.get().receive(base, &owner) {
            Ok(datagrams) => datagrams,
            Err(Stop::WouldBlock) => return Ok(false),
            Err(Stop::Failed(code)) => {
                slf.get()
                    .report_error(base, os_error(code))
                    .or_else(|error| Loop::callback_failed(&owner, base.as_any(), error))?;
                return Ok(false);
            }
        };
        let is_full = datagrams.len() == DATAGRAMS;
        for (message, from) in datagrams {
            let given = slf.get().pass_on(base, &message, &from);
            given.or_else(|error| Loop::callback_failed(&owner, base.as_any(), error))?;
            if base.get().closing.get(py) {
                return Ok(false);
            }
        }
        Ok(is_full && base.get().reads(py))
    }

    /// Receives datagrams: several with one call, if each fits into a part of the loop's buffer.
    fn receive<'py>(
        &self,
        base: &Bound<'py, Transport>,
        owner: &Bound<'py, Loop>,
    ) -> Result<Vec<Received<'py>>, Stop> {
        let py = base.py();
        let fd = base.get().live_fd(py);
        owner.get().files.read_buffer.with(py, |buffer| {
            let buffer = buffer.get(READ_SIZE);
            if self.family != Family::Internet {
                let (length, from) = socket_calls::recv_from(fd, buffer)?;
                return Ok(vec![(PyBytes::new(py, &buffer[..length]), from)]);
            }
            let mut received = Vec::with_capacity(DATAGRAMS);
            socket_calls::recv_several(fd, buffer, |data, from| {
                received.push((PyBytes::new(py, data), from));
            })?;
            Ok(received)
        })
    }

    pub fn write_ready(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let base = slf.as_super();
        while let Some((data, to)) = this.queue.with(py, |queue| queue.pop_front()) {
            let length = data.as_bytes(py).len() + HEADER;
            let sent = match this.send(base, data.bind(py), to.as_ref().map(|to| to.bind(py))) {
                Ok(sent) => sent,
                Err(error) => return Transport::fatal(base, error, FATAL),
            };
            match sent {
                Sent::Done => this.size.with(py, |size| *size -= length),
                Sent::Blocked => {
                    this.queue.with(py, |queue| queue.push_front((data, to)));
                    break;
                }
                Sent::Refused(error) => {
                    this.size.with(py, |size| *size -= length);
                    this.report_error(base, error)?;
                }
            }
        }
        Transport::resume_below(base, this.size.get(py))?;
        if Self::has_output(slf)? {
            return Ok(());
        }
        Transport::unwatch(base, Direction::Write)?;
        if base.get().closing.get(py) {
            base.get().lost.set(py, 1);
            return Transport::finish(base, &py.None());
        }
        Ok(())
    }

    pub fn send_to(
        slf: &Bound<'_, Self>,
        data: &Bound<'_, PyAny>,
        addr: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let base = slf.as_super();
        let data = as_bytes(data)?;
        let addr = match &this.address {
            None => addr,
            Some(only) => {
                let only = only.bind(py);
                if let Some(addr) = addr.filter(|addr| !addr.eq(only).unwrap_or(false)) {
                    return Err(PyValueError::new_err(format!(
                        "Invalid address: must be None or {only}, not {addr}"
                    )));
                }
                if base.get().lost.get(py) > 0 {
                    return write_after_loss(py, base.get());
                }
                Some(only.clone())
            }
        };
        if !Self::has_output(slf)? {
            match this.send(base, &data, addr.as_ref()) {
                Ok(Sent::Done) => return Ok(()),
                Ok(Sent::Refused(error)) => return this.report_error(base, error),
                Ok(Sent::Blocked) => Transport::watch(base, Direction::Write)?,
                Err(error) => return Transport::fatal(base, error, FATAL),
            }
        }
        let size = this.size.get(py) + data.as_bytes().len() + HEADER;
        this.size.set(py, size);
        let waiting = (data.unbind(), addr.map(Bound::unbind));
        this.queue.with(py, |queue| queue.push_back(waiting));
        Transport::pause_above(base, size)
    }

    /// Numeric addresses are sent natively; names and other families by the socket object, which
    /// also reports invalid addresses.
    fn send(
        &self,
        base: &Bound<'_, Transport>,
        data: &Bound<'_, PyBytes>,
        to: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Sent> {
        let py = data.py();
        let fd = base.get().live_fd(py);
        let sent = match to {
            _ if self.connected => socket_calls::send(fd, data.as_bytes()),
            Some(to) => match self.peers.address(to).or_else(|| from_python_v4(to)) {
                Some(address) => socket_calls::send_to(fd, data.as_bytes(), &address),
                None => return self.send_by_object(base, data, to),
            },
            None => return self.send_by_object(base, data, py.None().bind(py)),
        };
        Ok(match sent {
            Ok(_) => Sent::Done,
            Err(Stop::WouldBlock) => Sent::Blocked,
            Err(Stop::Failed(code)) => Sent::Refused(os_error(code)),
        })
    }

    fn send_by_object(
        &self,
        base: &Bound<'_, Transport>,
        data: &Bound<'_, PyBytes>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<Sent> {
        let py = data.py();
        let sock = base.getattr("_sock")?;
        let Err(error) = sock.call_method1(intern!(py, "sendto"), (data, to)) else {
            return Ok(Sent::Done);
        };
        if is_not_now(py, &error) {
            return Ok(Sent::Blocked);
        }
        match error.is_instance_of::<PyOSError>(py) {
            true => Ok(Sent::Refused(error)),
            false => Err(error),
        }
    }

    fn pass_on(
        &self,
        base: &Bound<'_, Transport>,
        data: &Bound<'_, PyBytes>,
        from: &Address,
    ) -> PyResult<()> {
        let from = self.peers.object(base.py(), from)?;
        deliver(base, data.as_any(), &from)
    }

    /// Receives one datagram with the socket object. Returns `true` if there may be more.
    fn read_by_object(&self, base: &Bound<'_, Transport>) -> PyResult<bool> {
        let py = base.py();
        let sock = base.getattr("_sock")?;
        let received = match sock.call_method1(intern!(py, "recvfrom"), (READ_SIZE,)) {
            Ok(received) => received,
            Err(error) if is_not_now(py, &error) => return Ok(false),
            Err(error) if error.is_instance_of::<PyOSError>(py) => {
                return self.report_error(base, error).map(|()| false);
            }
            Err(error) => return Err(error),
        };
        let (data, from): (Bound<'_, PyAny>, Bound<'_, PyAny>) = received.extract()?;
        deliver(base, &data, &from)?;
        Ok(!base.get().closing.get(py) && base.get().reads(py))
    }

    fn report_error(&self, base: &Bound<'_, Transport>, error: PyErr) -> PyResult<()> {
        let py = base.py();
        match base.get().protocol.cloned(py) {
            Some(protocol) => call_error_received(protocol.bind(py), error),
            None => Ok(()),
        }
    }
}

/// Calls the current protocol: an earlier datagram may have changed it.
fn deliver(
    base: &Bound<'_, Transport>,
    data: &Bound<'_, PyAny>,
    from: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = base.py();
    match base.get().protocol.cloned(py) {
        Some(protocol) => {
            let name = intern!(py, "datagram_received");
            call2(protocol.bind(py), name, data, from).map(drop)
        }
        None => Ok(()),
    }
}

fn is_not_now(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyBlockingIOError>(py) || error.is_instance_of::<PyInterruptedError>(py)
}

fn call_error_received(protocol: &Bound<'_, PyAny>, error: PyErr) -> PyResult<()> {
    let py = protocol.py();
    let value = error.into_value(py).into_bound(py).into_any();
    call1(protocol, intern!(py, "error_received"), &value).map(drop)
}

#[pymethods]
impl DatagramTransport {
    #[new]
    #[pyo3(signature = (r#loop, sock, protocol, address=None, waiter=None, extra=None))]
    fn new<'py>(
        r#loop: &Bound<'py, Loop>,
        sock: &Bound<'py, PyAny>,
        protocol: &Bound<'py, PyAny>,
        address: Option<&Bound<'py, PyAny>>,
        waiter: Option<&Bound<'py, PyAny>>,
        extra: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = sock.py();
        let base = Transport::build(TransportKind::Datagram, r#loop, sock, protocol, extra, None)?;
        let datagram = DatagramTransport {
            address: address.map(|address| address.clone().unbind()),
            connected: base.peername(py)?.is_truthy()?,
            family: Family::of(sock)?,
            peers: Peers::default(),
            queue: GilCell::default(),
            size: GilCell::default(),
        };
        let datagram = PyClassInitializer::from(base).add_subclass(datagram);
        let datagram = Bound::new(py, datagram)?;
        Transport::begin(datagram.as_super(), waiter)?;
        Ok(datagram)
    }

    fn get_write_buffer_size(&self, py: Python<'_>) -> usize {
        self.size.get(py)
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
        let size = slf.get().size.get(slf.py());
        Transport::set_write_limits(slf.as_super(), high, low, size)
    }

    fn is_reading(slf: &Bound<'_, Self>) -> bool {
        slf.as_super().get().reads(slf.py())
    }

    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::pause_reading(slf.as_super())
    }

    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::resume_reading(slf.as_super())
    }

    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        Transport::end_now(slf.as_super(), slf.py().None())
    }

    fn _force_close(slf: &Bound<'_, Self>, exc: Py<PyAny>) -> PyResult<()> {
        Transport::end_now(slf.as_super(), exc)
    }

    #[getter(_address)]
    fn address_attribute(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.address.as_ref().map(|address| address.clone_ref(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.address)?;
        self.queue.try_visit(|queue| {
            queue.iter().try_for_each(|(data, address)| {
                visit.call(data)?;
                visit.call(address)
            })
        })
    }

    fn __clear__(&self, py: Python<'_>) {
        self.size.set(py, 0);
        drop(self.queue.replace(py, VecDeque::new()));
    }
}
