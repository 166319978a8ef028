//! `receive`: the body, piece by piece, then the client's end.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::awaitable::{For, Next, Ready, Waiting};
use super::connection::HttpConnection;
use super::request::{HttpRequest, RequestBody};
use crate::asyncio::loop_class::futures;

pub fn receive<'py>(slf: &Bound<'py, HttpRequest>) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    match next(slf)? {
        Some(message) => Ready::create(py, message),
        None => Waiting::create(slf, For::Message),
    }
}

pub fn next_or_future(slf: &Bound<'_, HttpRequest>) -> PyResult<Next> {
    let py = slf.py();
    if let Some(message) = next(slf)? {
        return Ok(Next::Value(message));
    }
    let owner = slf.get().server.get().owner(py)?;
    let future = futures::create_future(&owner)?.unbind();
    let kept = future.clone_ref(py);
    slf.get().body.with(py, |body| body.waiters.push(kept));
    Ok(Next::Future(future))
}

/// The next message, if there is one.
fn next(slf: &Bound<'_, HttpRequest>) -> PyResult<Option<Py<PyAny>>> {
    let py = slf.py();
    let this = slf.get();
    if let Some((pieces, more)) = this.body.with(py, take) {
        let Some(body) = pieces else {
            return body_message(py, &PyBytes::new(py, b""), more).map(Some);
        };
        let body = join(py, body);
        if let Some(connection) = this.connection.cloned(py) {
            HttpConnection::body_was_received(connection.bind(py))?;
        }
        return body_message(py, &body, more).map(Some);
    }
    if this.disconnected.get(py) || this.response.with(py, |response| response.is_done()) {
        let message = PyDict::new(py);
        message.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?;
        return Ok(Some(message.into_any().unbind()));
    }
    if this.expects_continue.replace(py, false)
        && this.response.with(py, |response| !response.is_begun())
        && let Some(connection) = this.connection.cloned(py)
    {
        let line = PyBytes::new(py, b"HTTP/1.1 100 Continue\r\n\r\n");
        HttpConnection::write(connection.bind(py), &line)?;
    }
    Ok(None)
}

type Pieces = Option<Vec<Py<PyBytes>>>;

/// What has arrived, and whether more will.
fn take(body: &mut RequestBody) -> Option<(Pieces, bool)> {
    if body.pieces.is_empty() {
        if !body.ended || body.end_received {
            return None;
        }
        body.end_received = true;
        return Some((None, false));
    }
    body.size = 0;
    body.end_received = body.ended;
    Some((Some(body.pieces.drain(..).collect()), !body.ended))
}

fn join<'py>(py: Python<'py>, mut pieces: Vec<Py<PyBytes>>) -> Bound<'py, PyBytes> {
    if pieces.len() == 1
        && let Some(only) = pieces.pop()
    {
        return only.into_bound(py);
    }
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes(py)).collect();
    PyBytes::new(py, &pieces.concat())
}

fn body_message(py: Python<'_>, body: &Bound<'_, PyBytes>, more: bool) -> PyResult<Py<PyAny>> {
    let message = PyDict::new(py);
    message.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
    message.set_item(intern!(py, "body"), body)?;
    message.set_item(intern!(py, "more_body"), more)?;
    Ok(message.into_any().unbind())
}
