//! The protocol of a connection: `_native.HttpConnection`. It takes requests from its input one
//! after the other, and starts a task for each.

use std::ffi::CStr;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use super::head::{Framing, Head, Refusal};
use super::input::{Input, Piece};
use super::request::{HttpRequest, RequestBody};
use super::response::{self, Response};
use super::scope;
use super::server::HttpServer;
use crate::asyncio::loop_class::futures;
use crate::asyncio::turn::run_once;
use crate::cpython::cells::gil_cell::GilCell;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::fast_method::{CallArguments, FastMethod, install};
use crate::cpython::method_calls::{call0, call1, complete};
use crate::io::stream::transport::StreamTransport;

/// A body that the application does not receive fast enough stops reading at this size.
const MOST_WAITING: usize = 64 * 1024;
/// Of a body that the application did not want, this is read and dropped to save the connection.
const MOST_DROPPED: usize = 256 * 1024;
/// Requests of one client that are started before other callbacks of the loop get their turn.
const MOST_AT_ONCE: u32 = 16;
/// Seconds in which a client can read a last response.
const LINGER_TIME: u64 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The next is a head.
    #[default]
    Head,
    /// The next is a piece of a body.
    Body,
    /// The last response is sent: what arrives is dropped.
    Linger,
    /// Another protocol has the transport, or the connection is lost.
    Over,
}

#[pyclass(frozen, weakref, module = "erlang_loop._native")]
pub struct HttpConnection {
    server: Py<HttpServer>,
    number: GilSlot<u64>,
    pub transport: GilSlot<Option<Py<PyAny>>>,
    /// Of the scopes of its requests.
    template: GilSlot<Option<Py<PyDict>>>,
    request: GilSlot<Option<Py<HttpRequest>>>,
    stage: GilSlot<Stage>,
    input: GilCell<Input>,
    /// A part of the next head has arrived.
    head_begun: GilSlot<bool>,
    advancing: GilSlot<bool>,
    resume_scheduled: GilSlot<bool>,
    read_paused: GilSlot<bool>,
    dropped: GilSlot<usize>,
    received: GilSlot<u64>,
    /// A proxy has to send its client's address first.
    preface_due: GilSlot<bool>,
    pub write_paused: GilSlot<bool>,
    pub room_waiters: GilCell<Vec<Py<PyAny>>>,
    /// The sweep in which it waited too long; 0: never.
    pub deadline: GilSlot<u64>,
}

impl HttpConnection {
    pub fn new(server: &Bound<'_, HttpServer>) -> Self {
        HttpConnection {
            server: server.clone().unbind(),
            number: GilSlot::default(),
            transport: GilSlot::default(),
            template: GilSlot::default(),
            request: GilSlot::default(),
            stage: GilSlot::default(),
            input: GilCell::default(),
            head_begun: GilSlot::default(),
            advancing: GilSlot::default(),
            resume_scheduled: GilSlot::default(),
            read_paused: GilSlot::default(),
            dropped: GilSlot::default(),
            received: GilSlot::default(),
            preface_due: GilSlot::new(server.get().proxy_protocol),
            write_paused: GilSlot::default(),
            room_waiters: GilCell::default(),
            deadline: GilSlot::default(),
        }
    }

    fn wait_at_most(&self, py: Python<'_>, seconds: u64) {
        // One more, because the current second has begun.
        let tick = self.server.get().tick.get(py);
        self.deadline.set(py, tick + seconds + 1);
    }

    fn received_data(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        // Any other object is one of a test or of a transport that is not ours.
        let copy;
        let data = match data.cast::<PyBytes>() {
            Ok(data) => data,
            Err(_) => {
                copy = py.get_type::<PyBytes>().call1((data,))?.cast_into()?;
                &copy
            }
        };
        let bytes = data.as_bytes();
        match this.stage.get(py) {
            Stage::Linger | Stage::Over => return Ok(()),
            Stage::Body if this.input.with(py, |input| input.passes(bytes.len())) => {
                let ended = this.input.with(py, |input| input.passed(bytes.len()));
                let piece = data.clone().unbind();
                Self::body_arrived(slf, piece)?;
                return match ended && this.stage.get(py) == Stage::Body {
                    true => {
                        Self::body_ended(slf)?;
                        Self::advance(slf)
                    }
                    false => Ok(()),
                };
            }
            _ => {}
        }
        this.input.with(py, |input| input.push(bytes));
        Self::advance(slf)?;
        Self::pause_if_full(slf)
    }

    /// Requests that wait behind the current one are limited, too.
    fn pause_if_full(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().input.with(py, |input| input.len()) > MOST_WAITING {
            true => Self::pause_reading(slf),
            false => Ok(()),
        }
    }

    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().transport.cloned(py) {
            Some(transport) if !slf.get().read_paused.replace(py, true) => {
                call0(transport.bind(py), intern!(py, "pause_reading")).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().transport.cloned(py) {
            Some(transport) if slf.get().read_paused.replace(py, false) => {
                call0(transport.bind(py), intern!(py, "resume_reading")).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The application has received what had arrived of the body.
    pub fn body_was_received(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let waiting = slf.get().input.with(py, |input| input.len());
        match slf.get().stage.get(py) {
            // Also when all of the body is here: the client's end has to be noticed.
            Stage::Body | Stage::Head if waiting <= MOST_WAITING => Self::resume_reading(slf),
            _ => Ok(()),
        }
    }

    /// Takes from the input whatever can be processed now.
    fn advance(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.advancing.replace(py, true) {
            // The application's first step runs inside of the loop below, which goes on.
            return Ok(());
        }
        // Out of its cell, because Python code runs meanwhile.
        let mut input = this.input.replace(py, Input::default());
        let result = Self::advance_through(slf, &mut input);
        if !matches!(this.stage.get(py), Stage::Linger | Stage::Over) {
            this.input.replace(py, input);
        }
        this.advancing.set(py, false);
        result
    }

    fn advance_through(slf: &Bound<'_, Self>, input: &mut Input) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut started = 0;
        // Starts after the part of its body that is here, which it can then receive at once.
        let mut waiting: Option<Bound<'_, PyDict>> = None;
        loop {
            match this.stage.get(py) {
                Stage::Head => {
                    if let Some(scope) = waiting.take() {
                        Self::run(slf, scope)?;
                        continue;
                    }
                    if this.request.look(py, |request| request.is_some()) {
                        return Ok(());
                    }
                    // The client of the last response may have gone: each further one would be a
                    // warning of the transport.
                    if started > 0 && Self::is_closing(slf)? {
                        return Ok(());
                    }
                    if started == MOST_AT_ONCE {
                        return Self::advance_later(slf);
                    }
                    if this.preface_due.get(py) && !Self::take_preface(slf, input)? {
                        return Ok(());
                    }
                    started += 1;
                    waiting = Self::take_head(slf, input)?;
                    if waiting.is_none() {
                        return Ok(());
                    }
                }
                Stage::Body => match input.take_piece() {
                    Ok(Piece::Data(bytes)) => {
                        let piece = PyBytes::new(py, bytes).unbind();
                        Self::body_arrived(slf, piece)?;
                    }
                    Ok(Piece::End) => Self::body_ended(slf)?,
                    Ok(Piece::Missing) => {
                        return match waiting.take() {
                            Some(scope) => Self::run(slf, scope),
                            None => Ok(()),
                        };
                    }
                    Err(refusal) => return Self::refuse_input(slf, refusal),
                },
                Stage::Linger | Stage::Over => return Ok(()),
            }
        }
    }

    fn is_closing(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        match slf.get().transport.cloned(py) {
            Some(transport) => call0(transport.bind(py), intern!(py, "is_closing"))?.is_truthy(),
            None => Ok(true),
        }
    }

    fn advance_later(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if slf.get().resume_scheduled.replace(py, true) {
            return Ok(());
        }
        let owner = slf.get().server.get().owner(py)?;
        let advance = slf.getattr(intern!(py, "_advance"))?;
        call1(owner.as_any(), intern!(py, "call_soon"), &advance).map(drop)
    }

    /// Whether something follows the preface.
    fn take_preface(slf: &Bound<'_, Self>, input: &mut Input) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        match input.take_preface() {
            Ok(Some(preface)) => {
                this.preface_due.set(py, false);
                if let (Some(addresses), Some(template)) =
                    (preface.addresses, this.template.cloned(py))
                {
                    scope::of_proxy(template.bind(py), &addresses)?;
                }
                Ok(input.len() > 0)
            }
            Ok(None) => Ok(false),
            Err(refusal) => Self::refuse_input(slf, refusal).map(|()| false),
        }
    }

    /// The scope of the next request, if its head is complete and acceptable.
    fn take_head<'py>(
        slf: &Bound<'py, Self>,
        input: &mut Input,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = slf.py();
        let this = slf.get();
        let server = this.server.get();
        let empty = input.len() == 0;
        let taken = input.take_head(server.limits.head_size, |head| {
            Self::begin_request(slf, &head)
        });
        let scope = match taken {
            Ok(Some(scope)) => scope?,
            Ok(None) => {
                if empty {
                    this.wait_at_most(py, server.limits.keep_alive_time);
                } else if !this.head_begun.replace(py, true) {
                    this.wait_at_most(py, server.limits.head_time);
                }
                return match this.read_paused.get(py) {
                    true => Self::resume_reading(slf).map(|()| None),
                    false => Ok(None),
                };
            }
            Err(refusal) => {
                Self::refuse_input(slf, refusal)?;
                return Ok(None);
            }
        };
        this.deadline.set(py, 0);
        this.head_begun.set(py, false);
        if scope
            .get_item(intern!(py, "type"))?
            .is_some_and(|kind| kind.eq(intern!(py, "websocket")).unwrap_or(false))
        {
            Self::upgrade(slf, &scope, input)?;
            return Ok(None);
        }
        Ok(Some(scope))
    }

    fn begin_request<'py>(slf: &Bound<'py, Self>, head: &Head<'_>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let this = slf.get();
        let server = this.server.get();
        let template = match this.template.cloned(py) {
            Some(template) => template.into_bound(py),
            None => server.template.bind(py).copy()?,
        };
        let scope = scope::of_request(&template, head)?;
        if head.websocket {
            return Ok(scope);
        }
        let logs = server.access_log.look(py, |log| log.is_some());
        let has_body = head.framing != Framing::Length(0);
        let request = HttpRequest {
            server: this.server.clone_ref(py),
            connection: GilSlot::new(Some(slf.clone().unbind())),
            scope: GilSlot::new(logs.then(|| scope.clone().unbind())),
            began: if logs { event_loop::now_ns() } else { 0 },
            task: GilSlot::default(),
            ended: GilSlot::default(),
            is_head: head.method == "HEAD",
            version: head.version,
            keep_alive: GilSlot::new(head.keep_alive),
            expects_continue: GilSlot::new(head.expects_continue),
            disconnected: GilSlot::default(),
            body: GilCell::new(RequestBody {
                ended: !has_body,
                ..RequestBody::default()
            }),
            response: GilCell::new(Response::default()),
        };
        let request = Py::new(py, request)?;
        this.request.replace(py, Some(request));
        this.dropped.set(py, 0);
        this.received.set(py, 0);
        if has_body {
            this.stage.set(py, Stage::Body);
        }
        server.began(py);
        let most = server.limits.body_size;
        if let Framing::Length(length) = head.framing
            && most > 0
            && length > most
        {
            Self::refuse_request(slf, 413, "the body is too large")?;
        }
        Ok(scope)
    }

    /// Starts the task of the current request, and runs its first step: most applications reply in
    /// it, and then the response needs no further turn of the loop.
    fn run(slf: &Bound<'_, Self>, scope: Bound<'_, PyDict>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(request) = this.request.cloned(py) else {
            // Refused meanwhile.
            return Ok(());
        };
        let server = this.server.get();
        let limit = server.limits.concurrency;
        if limit > 0 && server.numbers.active() > limit {
            return Self::refuse_request(slf, 503, "Service Unavailable");
        }
        let Some(run) = server.run.cloned(py) else {
            return Ok(());
        };
        let owner = server.owner(py)?;
        let coroutine = run.bind(py).call1((scope, &request))?;
        let queued = || owner.get().ready.with(py, |ready| ready.len());
        let before = queued();
        let task = call1(owner.as_any(), intern!(py, "create_task"), &coroutine)?;
        if !request.get().ended.get(py) {
            request.get().task.replace(py, Some(task.unbind()));
        }
        // A task factory may have queued something else, which has to wait for its turn.
        match !futures::has_task_factory(&owner) && queued() == before + 1 {
            true => run_once::run_last(&owner),
            false => Ok(()),
        }
    }

    fn upgrade(
        slf: &Bound<'_, Self>,
        scope: &Bound<'_, PyDict>,
        input: &mut Input,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(upgrade) = this.server.get().upgrade.cloned(py) else {
            return Ok(());
        };
        this.stage.set(py, Stage::Over);
        let rest = PyBytes::new(py, &input.take_rest());
        let transport = this.transport.take(py);
        let upgraded = upgrade.call1(py, (transport, scope, rest));
        // Not before: a server that drains would count neither of the two.
        this.server.get().closed(py, this.number.get(py));
        upgraded.map(drop)
    }

    fn body_arrived(slf: &Bound<'_, Self>, piece: Py<PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let size = piece.as_bytes(py).len();
        let most = this.server.get().limits.body_size;
        this.received.set(py, this.received.get(py) + size as u64);
        let Some(request) = this.request.cloned(py) else {
            // The response is complete: the rest of the body is dropped.
            this.dropped.set(py, this.dropped.get(py) + size);
            return match this.dropped.get(py) > MOST_DROPPED {
                true => Self::linger(slf),
                false => Ok(()),
            };
        };
        if most > 0 && this.received.get(py) > most {
            return Self::refuse_request(slf, 413, "the body is too large");
        }
        match request.get().arrived(py, piece)? > MOST_WAITING {
            true => Self::pause_reading(slf),
            false => Ok(()),
        }
    }

    fn body_ended(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        slf.get().stage.set(py, Stage::Head);
        slf.get().deadline.set(py, 0);
        match slf.get().request.cloned(py) {
            Some(request) => request.get().body_ended(py),
            None => Ok(()),
        }
    }

    /// The response to the current request is complete.
    pub fn responded(slf: &Bound<'_, Self>, request: &Bound<'_, HttpRequest>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        drop(this.request.take(py));
        if !request.get().keep_alive.get(py) {
            return Self::linger(slf);
        }
        if this.stage.get(py) == Stage::Body {
            if request.get().expects_continue.get(py) {
                // The client was not asked for its body, and may or may not send it.
                return Self::linger(slf);
            }
            this.wait_at_most(py, LINGER_TIME);
            Self::resume_reading(slf)?;
        }
        if this.input.with(py, |input| input.len() == 0) && this.stage.get(py) == Stage::Head {
            this.wait_at_most(py, this.server.get().limits.keep_alive_time);
            return Self::resume_reading(slf);
        }
        match this.advancing.get(py) {
            true => Ok(()),
            // Not now: the task that sent the response is running, and another one cannot start
            // inside of it.
            false => Self::advance_later(slf),
        }
    }

    /// Sends an error, and closes the connection once the client had time to read it.
    pub fn refuse(slf: &Bound<'_, Self>, status: u16, text: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        drop(this.request.take(py));
        this.server.get().numbers.responded(status);
        let mut response = Response::default();
        response.start(status);
        let head = &mut response.head;
        response::append(head, b"content-type", b"text/plain; charset=utf-8");
        response::append(head, b"content-length", text.len().to_string().as_bytes());
        this.server.get().add_default_headers(py, head, false);
        head.extend_from_slice(b"connection: close\r\n\r\n");
        head.extend_from_slice(text.as_bytes());
        Self::write(slf, &PyBytes::new(py, head))?;
        Self::linger(slf)
    }

    /// The current request gets an error instead of the application's response.
    fn refuse_request(slf: &Bound<'_, Self>, status: u16, text: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(request) = this.request.take(py) else {
            return Ok(());
        };
        let request = request.get();
        drop(request.connection.take(py));
        let begun = request.response.with(py, |response| response.is_begun());
        request.lost(py)?;
        if request.task.look(py, |task| task.is_none()) && !request.ended.replace(py, true) {
            let server = this.server.get();
            server.numbers.ended();
        }
        match begun {
            true => Self::break_off(slf),
            false => Self::refuse(slf, status, text),
        }
    }

    /// The client sent what cannot be understood.
    fn refuse_input(slf: &Bound<'_, Self>, Refusal(status, text): Refusal) -> PyResult<()> {
        match slf
            .get()
            .request
            .look(slf.py(), |request| request.is_some())
        {
            true => Self::refuse_request(slf, status, text),
            false => Self::refuse(slf, status, text),
        }
    }

    /// Ends what is sent, and waits for the client's end: closing while it still sends would reset
    /// the connection, and the response would be lost.
    fn linger(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if matches!(this.stage.get(py), Stage::Linger | Stage::Over) {
            return Ok(());
        }
        let reads_all = this.stage.get(py) == Stage::Head;
        this.stage.set(py, Stage::Linger);
        this.input.with(py, |input| input.clear());
        let Some(transport) = this.transport.cloned(py) else {
            return Ok(());
        };
        let transport = transport.bind(py);
        let half = !reads_all && call0(transport, intern!(py, "can_write_eof"))?.is_truthy()?;
        if !half {
            return call0(transport, intern!(py, "close")).map(drop);
        }
        this.wait_at_most(py, LINGER_TIME);
        Self::resume_reading(slf)?;
        call0(transport, intern!(py, "write_eof")).map(drop)
    }

    /// The response cannot be completed: the client has to see that.
    pub fn break_off(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        drop(slf.get().request.take(py));
        match slf.get().transport.cloned(py) {
            Some(transport) => call0(transport.bind(py), intern!(py, "abort")).map(drop),
            None => Ok(()),
        }
    }

    pub fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let Some(transport) = slf.get().transport.cloned(py) else {
            return Ok(());
        };
        let transport = transport.bind(py);
        match transport.cast::<StreamTransport>() {
            Ok(stream) => StreamTransport::write_data(stream, data),
            Err(_) => call1(transport, intern!(py, "write"), data).map(drop),
        }
    }

    pub fn write_pieces<const N: usize>(
        slf: &Bound<'_, Self>,
        pieces: [Bound<'_, PyBytes>; N],
    ) -> PyResult<()> {
        let py = slf.py();
        let Some(transport) = slf.get().transport.cloned(py) else {
            return Ok(());
        };
        let pieces = PyTuple::new(py, pieces)?;
        let name = intern!(py, "writelines");
        call1(transport.bind(py), name, pieces.as_any()).map(drop)
    }

    /// Its server closes: the next response is the last.
    pub fn drain(slf: &Bound<'_, Self>, at_once: bool) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let is_idle =
            this.request.look(py, |request| request.is_none()) && this.stage.get(py) == Stage::Head;
        match this.transport.cloned(py) {
            Some(transport) if is_idle && at_once => {
                call0(transport.bind(py), intern!(py, "close")).map(drop)
            }
            _ => Ok(()),
        }
    }

    pub fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        Self::cancel(slf)?;
        match slf.get().transport.cloned(py) {
            Some(transport) => call0(transport.bind(py), intern!(py, "abort")).map(drop),
            None => Ok(()),
        }
    }

    fn cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Some(request) = slf.get().request.cloned(py) else {
            return Ok(());
        };
        match request.get().task.cloned(py) {
            Some(task) => call0(task.bind(py), intern!(py, "cancel")).map(drop),
            None => Ok(()),
        }
    }

    /// It has waited too long.
    pub fn timed_out(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.deadline.set(py, 0);
        match this.stage.get(py) {
            Stage::Over => {
                Self::cancel(slf)?;
                Self::forget(slf);
                Ok(())
            }
            Stage::Head if this.input.with(py, |input| input.len()) > 0 => {
                Self::refuse(slf, 408, "the head did not arrive in time")
            }
            _ => match this.transport.cloned(py) {
                Some(transport) => call0(transport.bind(py), intern!(py, "close")).map(drop),
                None => Ok(()),
            },
        }
    }

    /// The connection is lost and its last request has ended.
    pub fn forget(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let this = slf.get();
        drop(this.request.take(py));
        this.server.get().closed(py, this.number.get(py));
    }

    fn wake_writers(&self, py: Python<'_>) -> PyResult<()> {
        let waiters = self.room_waiters.replace(py, Vec::new());
        waiters
            .iter()
            .try_for_each(|future| complete(future.bind(py)))
    }
}

#[pymethods]
impl HttpConnection {
    fn connection_made(slf: &Bound<'_, Self>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let template = scope::of_connection(this.server.get().template.bind(py), transport)?;
        this.template.replace(py, Some(template.unbind()));
        this.transport.replace(py, Some(transport.clone().unbind()));
        this.number
            .set(py, HttpServer::opened(&this.server.bind(py).clone(), slf)?);
        this.wait_at_most(py, this.server.get().limits.head_time);
        Ok(())
    }

    fn eof_received(&self) -> bool {
        false
    }

    fn connection_lost(slf: &Bound<'_, Self>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = error;
        let py = slf.py();
        let this = slf.get();
        this.stage.set(py, Stage::Over);
        this.deadline.set(py, 0);
        drop(this.transport.take(py));
        this.write_paused.set(py, false);
        let woken = this.wake_writers(py);
        let Some(request) = this.request.cloned(py) else {
            this.server.get().closed(py, this.number.get(py));
            return woken;
        };
        request.get().lost(py)?;
        match this.server.get().limits.disconnect_grace {
            Some(0) => Self::cancel(slf)?,
            Some(grace) => this.wait_at_most(py, grace),
            None => {}
        }
        woken
    }

    fn pause_writing(&self, py: Python<'_>) {
        self.write_paused.set(py, true);
    }

    fn resume_writing(&self, py: Python<'_>) -> PyResult<()> {
        self.write_paused.set(py, false);
        self.wake_writers(py)
    }

    fn _advance(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().resume_scheduled.set(slf.py(), false);
        Self::advance(slf)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.server)?;
        self.transport.visit(|one| visit.call(one))?;
        self.template.visit(|one| visit.call(one))?;
        self.request.visit(|one| visit.call(one))?;
        self.room_waiters.try_visit(|waiters| {
            let mut waiters = waiters.iter();
            waiters.try_for_each(|future| visit.call(future))
        })
    }

    fn __clear__(&self, py: Python<'_>) {
        drop((
            self.transport.take(py),
            self.template.take(py),
            self.request.take(py),
            self.room_waiters.replace(py, Vec::new()),
        ));
    }
}

pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    install::<DataReceived>(&py.get_type::<HttpConnection>())
}

struct DataReceived;

impl FastMethod for DataReceived {
    type Class = HttpConnection;
    const NAME: &'static CStr = c"data_received";
    const DOC: &'static CStr = c"data_received($self, data)\n--\n\nTakes what arrived.";

    fn call<'py>(
        slf: &Bound<'py, HttpConnection>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [data] = arguments.exactly("data_received", ["data"])?;
        HttpConnection::received_data(slf, &data)?;
        Ok(slf.py().None().into_bound(slf.py()))
    }
}
