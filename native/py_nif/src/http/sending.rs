//! `send`: the order of an application's messages, and the framing of its body.

use std::io::Write;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView, PyString};

use super::awaitable::{For, Next, Ready, Waiting};
use super::connection::HttpConnection;
use super::request::HttpRequest;
use super::response::{self, Framing, Phase, Response};
use crate::asyncio::loop_class::futures;

pyo3::create_exception!(
    erlang_loop._native,
    DisconnectedError,
    PyOSError,
    "The client has gone: what is sent has no receiver."
);

/// Up to this size a body is copied behind its head; above, both are sent by one `sendmsg`.
const COPIED: usize = 16 * 1024;

pub fn send<'py>(
    slf: &Bound<'py, HttpRequest>,
    message: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let this = slf.get();
    if this.disconnected.get(py) {
        return Err(DisconnectedError::new_err("the client has disconnected"));
    }
    let Ok(message) = message.cast::<PyDict>() else {
        return Err(PyTypeError::new_err("an ASGI message is a dict"));
    };
    let kind = required(message, intern!(py, "type"))?;
    let Ok(kind) = kind.cast::<PyString>() else {
        return Err(PyTypeError::new_err("the type of an ASGI message is a str"));
    };
    let phase = this.response.with(py, |response| response.phase);
    match (phase, kind.to_str()?) {
        (Phase::New, "http.response.start") => start(slf, message)?,
        (Phase::Started | Phase::Body, "http.response.body") => body(slf, message)?,
        (Phase::Started, "http.response.pathsend") => return send_file(slf, message),
        (Phase::Trailers, "http.response.trailers") => trailers(slf, message)?,
        (phase, kind) => return Err(unexpected(phase, kind)),
    }
    sent(slf)
}

fn required<'py>(
    message: &Bound<'py, PyDict>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    match message.get_item(name)? {
        Some(value) => Ok(value),
        None => Err(PyValueError::new_err(format!(
            "the ASGI message has no '{name}'"
        ))),
    }
}

#[cold]
fn unexpected(phase: Phase, kind: &str) -> PyErr {
    let expected = match phase {
        Phase::New => "http.response.start",
        Phase::Started | Phase::Body => "http.response.body",
        Phase::Trailers => "http.response.trailers",
        Phase::File | Phase::Done => {
            let text = format!("Unexpected ASGI message '{kind}', the response is complete");
            return PyRuntimeError::new_err(text);
        }
    };
    let text = format!("Expected ASGI message '{expected}', but got '{kind}'");
    PyRuntimeError::new_err(text)
}

/// What `send` returns: it waits while the client reads slowly.
fn sent<'py>(slf: &Bound<'py, HttpRequest>) -> PyResult<Bound<'py, PyAny>> {
    static SENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = slf.py();
    match must_wait(slf) {
        true => Waiting::create(slf, For::Room),
        // One object for all: it has no state.
        false => SENT
            .get_or_try_init(py, || Ready::create(py, py.None()).map(Bound::unbind))
            .map(|sent| sent.bind(py).clone()),
    }
}

fn must_wait(slf: &Bound<'_, HttpRequest>) -> bool {
    let py = slf.py();
    let this = slf.get();
    let paused = |connection: Option<&Py<HttpConnection>>| {
        connection.is_some_and(|connection| connection.get().write_paused.get(py))
    };
    !this.disconnected.get(py) && this.connection.look(py, paused)
}

pub fn room_or_future(slf: &Bound<'_, HttpRequest>) -> PyResult<Next> {
    let py = slf.py();
    if !must_wait(slf) {
        return Ok(Next::Value(py.None()));
    }
    let owner = slf.get().server.get().owner(py)?;
    let future = futures::create_future(&owner)?.unbind();
    if let Some(connection) = slf.get().connection.cloned(py) {
        let kept = future.clone_ref(py);
        let waiters = &connection.get().room_waiters;
        waiters.with(py, |waiters| waiters.push(kept));
    }
    Ok(Next::Future(future))
}

fn start(slf: &Bound<'_, HttpRequest>, message: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = slf.py();
    let status = required(message, intern!(py, "status"))?.extract::<u16>()?;
    if !(200..=999).contains(&status) {
        return Err(PyValueError::new_err(format!("invalid status {status}")));
    }
    let mut response = Response::default();
    response.start(status);
    if let Some(headers) = message.get_item(intern!(py, "headers"))? {
        response::add_headers(&mut response, &headers)?;
    }
    if let Some(trailers) = message.get_item(intern!(py, "trailers"))? {
        response.wants_trailers = trailers.is_truthy()? && slf.get().version == 1;
    }
    slf.get().response.replace(py, response);
    Ok(())
}

/// The head is complete but for the framing: what the server adds.
fn finish_head(slf: &Bound<'_, HttpRequest>, response: &mut Response, whole: Option<usize>) {
    let py = slf.py();
    let this = slf.get();
    response.finish_head(this.is_head, this.version, whole);
    let server = this.server.get();
    server.add_default_headers(py, &mut response.head, response.has_date);
    let stays = this.keep_alive.get(py)
        && !response.closes
        && response.framing != Framing::UntilClose
        && !server.draining.get(py);
    this.keep_alive.set(py, stays);
    match (stays, this.version) {
        (false, _) => response
            .head
            .extend_from_slice(b"connection: close\r\n\r\n"),
        (true, 0) => response
            .head
            .extend_from_slice(b"connection: keep-alive\r\n\r\n"),
        (true, _) => response.head.extend_from_slice(b"\r\n"),
    }
}

fn body(slf: &Bound<'_, HttpRequest>, message: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let data = match message.get_item(intern!(py, "body"))? {
        Some(data) => as_bytes(data)?,
        None => PyBytes::new(py, b""),
    };
    let more = match message.get_item(intern!(py, "more_body"))? {
        Some(more) => more.is_truthy()?,
        None => false,
    };
    let size = data.as_bytes().len();
    // Out of the cell while the head is completed.
    let mut response = this.response.replace(py, Response::default());
    if response.phase == Phase::Started {
        finish_head(slf, &mut response, (!more).then_some(size));
    }
    let mut out = std::mem::take(&mut response.head);
    let counted = response.count(size, more);
    let framing = response.framing;
    if counted.is_ok() {
        response.phase = match more {
            true => Phase::Body,
            false if response.wants_trailers && framing == Framing::Chunked => Phase::Trailers,
            false => Phase::Done,
        };
    }
    let phase = response.phase;
    if counted.is_err() {
        // A head that was not sent may still become that of an error.
        response.head = std::mem::take(&mut out);
    }
    this.response.replace(py, response);
    counted?;
    let chunked = framing == Framing::Chunked;
    if chunked && size > 0 {
        let _ = write!(out, "{size:x}\r\n");
    }
    let mut large = None;
    if framing != Framing::None {
        match size > COPIED {
            true => large = Some(data),
            false => out.extend_from_slice(data.as_bytes()),
        }
    }
    let mut after: Vec<u8> = Vec::new();
    let tail = if large.is_some() {
        &mut after
    } else {
        &mut out
    };
    if chunked && size > 0 {
        tail.extend_from_slice(b"\r\n");
    }
    if chunked && !more {
        let end: &[u8] = match phase {
            Phase::Trailers => b"0\r\n",
            _ => b"0\r\n\r\n",
        };
        tail.extend_from_slice(end);
    }
    if let Some(connection) = this.connection.cloned(py) {
        let connection = connection.bind(py);
        let head = PyBytes::new(py, &out);
        match large {
            None => HttpConnection::write(connection, &head)?,
            Some(large) => {
                let after = PyBytes::new(py, &after);
                HttpConnection::write_pieces(connection, [head, large, after])?;
            }
        }
    }
    match phase {
        Phase::Done => complete(slf),
        _ => Ok(()),
    }
}

fn as_bytes(data: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyBytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    if !data.is_instance_of::<PyByteArray>() && !data.is_instance_of::<PyMemoryView>() {
        return Err(PyTypeError::new_err("the body of a response is bytes"));
    }
    let bytes = data.py().get_type::<PyBytes>().call1((data,))?;
    Ok(bytes.cast_into()?)
}

fn trailers(slf: &Bound<'_, HttpRequest>, message: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let mut lines = Response::default();
    if let Some(headers) = message.get_item(intern!(py, "headers"))? {
        response::add_headers(&mut lines, &headers)?;
    }
    let more = match message.get_item(intern!(py, "more_trailers"))? {
        Some(more) => more.is_truthy()?,
        None => false,
    };
    if !more {
        lines.head.extend_from_slice(b"\r\n");
    }
    if let Some(connection) = this.connection.cloned(py) {
        HttpConnection::write(connection.bind(py), &PyBytes::new(py, &lines.head))?;
    }
    match more {
        true => Ok(()),
        false => {
            this.response
                .with(py, |response| response.phase = Phase::Done);
            complete(slf)
        }
    }
}

/// `http.response.pathsend`: the head now, the file by `loop.sendfile`.
fn send_file<'py>(
    slf: &Bound<'py, HttpRequest>,
    message: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let this = slf.get();
    let path = required(message, intern!(py, "path"))?;
    let asgi = py.import(intern!(py, "erlang_loop.asgi.files"))?;
    let file = asgi.call_method1(intern!(py, "open_file"), (path,))?;
    let (file, size): (Bound<'py, PyAny>, usize) = file.extract()?;
    let mut response = this.response.replace(py, Response::default());
    finish_head(slf, &mut response, Some(size));
    let counted = response.count(size, false);
    let has_body = response.framing != Framing::None;
    let head = std::mem::take(&mut response.head);
    response.phase = Phase::File;
    this.response.replace(py, response);
    counted?;
    let Some(connection) = this.connection.cloned(py) else {
        return Err(DisconnectedError::new_err("the client has disconnected"));
    };
    let connection = connection.bind(py);
    HttpConnection::write(connection, &PyBytes::new(py, &head))?;
    let transport = connection.get().transport.cloned(py);
    let owner = this.server.get().owner(py)?;
    asgi.call_method1(
        intern!(py, "send_file"),
        (owner, transport, file, slf, has_body),
    )
}

/// The file has been sent.
pub fn sent_file(slf: &Bound<'_, HttpRequest>) -> PyResult<()> {
    let py = slf.py();
    let response = &slf.get().response;
    if response.with(py, |response| response.phase != Phase::File) {
        return Err(PyRuntimeError::new_err("no file is being sent"));
    }
    response.with(py, |response| response.phase = Phase::Done);
    complete(slf)
}

/// The response is complete: the connection goes on to the next request.
fn complete(slf: &Bound<'_, HttpRequest>) -> PyResult<()> {
    let py = slf.py();
    let status = slf.get().response.with(py, |response| response.status);
    slf.get().server.get().numbers.responded(status);
    log(slf)?;
    // An application may wait in another task for the client's end.
    slf.get().wake(py)?;
    match slf.get().connection.take(py) {
        Some(connection) => HttpConnection::responded(connection.bind(py), slf),
        None => Ok(()),
    }
}

fn log(slf: &Bound<'_, HttpRequest>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let Some(scope) = this.scope.take(py) else {
        return Ok(());
    };
    let Some(log) = this.server.get().access_log.cloned(py) else {
        return Ok(());
    };
    let status = this.response.with(py, |response| response.status);
    if status == 0 {
        // The client has gone before there was a response.
        return Ok(());
    }
    let seconds = event_loop::now_ns().saturating_sub(this.began) as f64 / 1e9;
    log.call1(py, (scope, status, seconds)).map(drop)
}

/// The application has returned or raised. What its response lacks is returned; the client gets a
/// 500 if nothing was sent, and otherwise sees the connection break.
pub fn end(slf: &Bound<'_, HttpRequest>) -> PyResult<Option<&'static str>> {
    let py = slf.py();
    let this = slf.get();
    drop(this.task.take(py));
    if this.ended.replace(py, true) {
        return Ok(None);
    }
    let server = this.server.get();
    server.numbers.ended();
    if this.disconnected.get(py) {
        log(slf)?;
        if let Some(connection) = this.connection.take(py) {
            HttpConnection::forget(connection.bind(py));
        }
        return Ok(None);
    }
    let (phase, begun) = this
        .response
        .with(py, |response| (response.phase, response.is_begun()));
    if phase == Phase::Done {
        return Ok(None);
    }
    let Some(connection) = this.connection.cloned(py) else {
        return Ok(None);
    };
    let connection = connection.bind(py);
    match begun {
        true => HttpConnection::break_off(connection)?,
        false => {
            this.response.with(py, |response| {
                response.phase = Phase::Done;
                response.status = 500;
            });
            log(slf)?;
            drop(this.connection.take(py));
            HttpConnection::refuse(connection, 500, "Internal Server Error")?;
        }
    }
    Ok(Some(match phase {
        Phase::New => "without starting its response",
        _ => "without completing its response",
    }))
}
