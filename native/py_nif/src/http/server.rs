//! What all connections of a server share: `_native.HttpServer`, the protocol factory of a listening
//! socket. It knows its connections, closes those that wait too long, and drains.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use super::connection::HttpConnection;
use super::numbers::Numbers;
use crate::asyncio::loop_class::class::Loop;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::cells::gil_slot::GilSlot;

/// Set once, when the server is created. Times are in sweeps, of which there is one per second.
pub struct Limits {
    pub head_size: usize,
    /// 0: no limit.
    pub body_size: u64,
    pub concurrency: u64,
    pub max_requests: u64,
    pub head_time: u64,
    pub keep_alive_time: u64,
    /// After a client has gone its request has this long to end; then it is cancelled.
    pub disconnect_grace: Option<u64>,
}

#[pyclass(frozen, weakref, module = "erlang_loop._native")]
pub struct HttpServer {
    pub owner: GilSlot<Option<Py<Loop>>>,
    /// `async def run(scope, request)`.
    pub run: GilSlot<Option<Py<PyAny>>>,
    /// `def upgrade(connection, scope, rest)`: a WebSocket begins.
    pub upgrade: GilSlot<Option<Py<PyAny>>>,
    /// `def log(scope, status, seconds)`, if there is an access log.
    pub access_log: GilSlot<Option<Py<PyAny>>>,
    /// `def notify(event)`: "empty" when the last connection of a draining server has ended,
    /// "max_requests" when that many have begun.
    notify: GilSlot<Option<Py<PyAny>>>,
    /// What all scopes have in common.
    pub template: Py<PyDict>,
    /// Headers of every response but `date`, complete lines.
    pub default_headers: Vec<u8>,
    pub sends_date: bool,
    pub limits: Limits,
    /// Each connection begins with the PROXY protocol.
    pub proxy_protocol: bool,
    connections: GilCell<Connections>,
    pub numbers: Arc<Numbers>,
    pub draining: GilSlot<bool>,
    /// Counts the sweeps.
    pub tick: GilSlot<u64>,
    sweeping: GilSlot<bool>,
    date: GilCell<(u64, String)>,
}

#[derive(Default)]
struct Connections {
    last: u64,
    open: FxHashMap<u64, Py<HttpConnection>>,
}

impl Connections {
    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut open = self.open.values();
        open.try_for_each(|connection| visit.call(connection))
    }
}

impl HttpServer {
    pub fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Loop>> {
        match self.owner.cloned(py) {
            Some(owner) => Ok(owner.into_bound(py)),
            None => Err(PyTypeError::new_err("the server is closed")),
        }
    }

    /// The connection's number.
    pub fn opened(slf: &Bound<'_, Self>, connection: &Bound<'_, HttpConnection>) -> PyResult<u64> {
        let py = slf.py();
        let connection = connection.clone().unbind();
        let number = slf.get().connections.with(py, |connections| {
            connections.last += 1;
            connections.open.insert(connections.last, connection);
            slf.get().numbers.set_connections(connections.open.len());
            connections.last
        });
        Self::sweep_later(slf)?;
        Ok(number)
    }

    pub fn closed(&self, py: Python<'_>, number: u64) {
        let (known, left) = self
            .connections
            .with(py, |all| (all.open.remove(&number), all.open.len()));
        self.numbers.set_connections(left);
        if known.is_some() && left == 0 && self.draining.get(py) {
            self.notify(py, "empty");
        }
    }

    /// A request begins.
    pub fn began(&self, py: Python<'_>) {
        if self.numbers.began() == self.limits.max_requests {
            self.notify(py, "max_requests");
        }
    }

    fn notify(&self, py: Python<'_>, event: &str) {
        if let Some(notify) = self.notify.cloned(py)
            && let Err(error) = notify.call1(py, (event,))
        {
            error.write_unraisable(py, Some(notify.bind(py)));
        }
    }

    pub fn open_count(&self, py: Python<'_>) -> usize {
        self.connections.with(py, |all| all.open.len())
    }

    fn all(&self, py: Python<'_>) -> Vec<Py<HttpConnection>> {
        self.connections.with(py, |all| {
            let open = all.open.values();
            open.map(|connection| connection.clone_ref(py)).collect()
        })
    }

    /// Sweeps go on while there are connections: an idle server has no timer.
    fn sweep_later(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().sweeping.get(py) {
            return Ok(());
        }
        let sweep = slf.getattr(intern!(py, "_sweep"))?;
        let owner = slf.get().owner(py)?;
        owner.call_method1(intern!(py, "call_later"), (1.0, sweep))?;
        slf.get().sweeping.set(py, true);
        Ok(())
    }

    /// Appends `date: ...` and the default headers.
    pub fn add_default_headers(&self, py: Python<'_>, head: &mut Vec<u8>, has_date: bool) {
        head.extend_from_slice(&self.default_headers);
        if !self.sends_date || has_date {
            return;
        }
        let now = SystemTime::now();
        let second = now.duration_since(SystemTime::UNIX_EPOCH);
        let second = second.unwrap_or(Duration::ZERO).as_secs();
        self.date.with(py, |(at, text)| {
            if *at != second {
                *at = second;
                *text = format!("date: {}\r\n", httpdate::fmt_http_date(now));
            }
            head.extend_from_slice(text.as_bytes());
        });
    }
}

#[pymethods]
impl HttpServer {
    #[new]
    #[pyo3(signature = (r#loop, run, upgrade, template, *, access_log=None, notify=None, default_headers=Vec::new(),
        date_header=true, head_size=65536, body_size=0, concurrency=0, max_requests=0, head_time=30,
        keep_alive_time=5, disconnect_grace=None, proxy_protocol=false))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        r#loop: &Bound<'_, Loop>,
        run: Py<PyAny>,
        upgrade: Py<PyAny>,
        template: Py<PyDict>,
        access_log: Option<Py<PyAny>>,
        notify: Option<Py<PyAny>>,
        default_headers: Vec<u8>,
        date_header: bool,
        head_size: usize,
        body_size: u64,
        concurrency: u64,
        max_requests: u64,
        head_time: u64,
        keep_alive_time: u64,
        disconnect_grace: Option<u64>,
        proxy_protocol: bool,
    ) -> Self {
        HttpServer {
            owner: GilSlot::new(Some(r#loop.clone().unbind())),
            run: GilSlot::new(Some(run)),
            upgrade: GilSlot::new(Some(upgrade)),
            access_log: GilSlot::new(access_log),
            notify: GilSlot::new(notify),
            template,
            default_headers,
            sends_date: date_header,
            limits: Limits {
                head_size,
                body_size,
                concurrency,
                max_requests,
                head_time,
                keep_alive_time,
                disconnect_grace,
            },
            proxy_protocol,
            connections: GilCell::default(),
            numbers: Numbers::of_loop(r#loop.get().id),
            draining: GilSlot::default(),
            tick: GilSlot::default(),
            sweeping: GilSlot::default(),
            date: GilCell::default(),
        }
    }

    /// The protocol of a new connection.
    fn __call__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, HttpConnection>> {
        Bound::new(slf.py(), HttpConnection::new(slf))
    }

    /// Open connections, requests in progress, requests since the start.
    fn counts(&self, py: Python<'_>) -> (usize, u64, u64) {
        (
            self.open_count(py),
            self.numbers.active(),
            self.numbers.served(),
        )
    }

    /// The next response of each connection is its last. Idle connections are closed: `at_once`, or
    /// after the time that they may be idle, if another server goes on to serve the clients.
    fn drain(&self, py: Python<'_>, at_once: bool) -> PyResult<()> {
        self.draining.set(py, true);
        for connection in self.all(py) {
            HttpConnection::drain(connection.bind(py), at_once)?;
        }
        Ok(())
    }

    /// Cancels what still runs, and closes all connections.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        for connection in self.all(py) {
            HttpConnection::abort(connection.bind(py))?;
        }
        Ok(())
    }

    fn _sweep(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.sweeping.set(py, false);
        let tick = this.tick.get(py) + 1;
        this.tick.set(py, tick);
        for connection in this.all(py) {
            let due = connection.get().deadline.get(py);
            if due != 0 && due <= tick {
                HttpConnection::timed_out(connection.bind(py))?;
            }
        }
        match this.open_count(py) {
            0 => Ok(()),
            _ => Self::sweep_later(slf),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.owner.visit(|owner| visit.call(owner))?;
        visit.call(&self.template)?;
        for slot in [&self.run, &self.upgrade, &self.access_log, &self.notify] {
            slot.visit(|object| visit.call(object))?;
        }
        self.connections.try_visit(|all| all.traverse(visit))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop((
            self.owner.take(py),
            self.run.take(py),
            self.upgrade.take(py),
            self.access_log.take(py),
            self.notify.take(py),
            self.connections.replace(py, Connections::default()),
        ));
    }
}
