//! A response: its head, as bytes, and how its body is framed.

use std::io::Write;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

#[derive(Default)]
pub struct Response {
    pub phase: Phase,
    pub status: u16,
    /// Not sent before the first piece of the body, to be in one packet with it.
    pub head: Vec<u8>,
    pub framing: Framing,
    pub length: Option<u64>,
    pub has_date: bool,
    /// The application said so.
    pub closes: bool,
    pub wants_trailers: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// `http.response.start` comes next.
    #[default]
    New,
    /// The head is ready, but not sent.
    Started,
    /// The head is sent, the body is not complete.
    Body,
    /// `http.response.trailers` comes next.
    Trailers,
    /// A file is being sent.
    File,
    Done,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// HEAD, 204, 304: what the application sends is dropped.
    #[default]
    None,
    /// This number of bytes is left.
    Length(u64),
    Chunked,
    /// The end of the connection is the end of the body.
    UntilClose,
}

impl Response {
    pub fn is_begun(&self) -> bool {
        !matches!(self.phase, Phase::New | Phase::Started)
    }

    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Begins the head. `close` ends the line of headers of this connection.
    pub fn start(&mut self, status: u16) {
        self.status = status;
        self.phase = Phase::Started;
        self.head = Vec::with_capacity(512);
        self.head.extend_from_slice(b"HTTP/1.1 ");
        // A Vec accepts everything.
        let _ = write!(self.head, "{status} {}\r\n", reason(status));
    }

    /// Decides the framing, and completes the head. `whole`: the size of the body, if this is all.
    pub fn finish_head(&mut self, is_head: bool, version: u8, whole: Option<usize>) {
        let bodyless = is_head || matches!(self.status, 204 | 304);
        self.framing = match (self.length, whole) {
            _ if bodyless => Framing::None,
            (Some(length), _) => Framing::Length(length),
            (None, Some(size)) if !self.wants_trailers => {
                let _ = write!(self.head, "content-length: {size}\r\n");
                Framing::Length(size as u64)
            }
            _ if version == 1 => {
                self.head
                    .extend_from_slice(b"transfer-encoding: chunked\r\n");
                Framing::Chunked
            }
            _ => Framing::UntilClose,
        };
    }

    /// Appends a piece of the body, framed, unless it is so large that `large` says to send it by
    /// itself. An error: more than the head promised, or less.
    pub fn count(&mut self, size: usize, more: bool) -> PyResult<()> {
        let Framing::Length(left) = &mut self.framing else {
            return Ok(());
        };
        let text = match left.checked_sub(size as u64) {
            None => "Response content longer than Content-Length",
            Some(rest) if rest > 0 && !more => "Response content shorter than Content-Length",
            Some(rest) => {
                *left = rest;
                return Ok(());
            }
        };
        Err(PyRuntimeError::new_err(text))
    }
}

/// Appends the application's headers, checked: what is not a header would be the begin of another.
pub fn add_headers(response: &mut Response, headers: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(list) = headers.cast_exact::<PyList>() {
        for pair in list.iter() {
            add_pair(response, &pair)?;
        }
        return Ok(());
    }
    for pair in headers.try_iter()? {
        add_pair(response, &pair?)?;
    }
    Ok(())
}

fn add_pair(response: &mut Response, pair: &Bound<'_, PyAny>) -> PyResult<()> {
    let (name, value) = match pair.cast_exact::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, pair.get_item(1)?),
        _ => pair.extract()?,
    };
    match (name.cast::<PyBytes>(), value.cast::<PyBytes>()) {
        (Ok(name), Ok(value)) => add_header(response, name.as_bytes(), value.as_bytes()),
        _ => {
            let text = "headers are pairs of bytes";
            Err(PyTypeError::new_err(text))
        }
    }
}

fn add_header(response: &mut Response, name: &[u8], value: &[u8]) -> PyResult<()> {
    check_header(name, value)?;
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    match name.len() {
        4 if is("date") => response.has_date = true,
        10 if is("connection") => {
            // Whether the connection stays is decided by both sides, and said at the end.
            if value.eq_ignore_ascii_case(b"close") {
                response.closes = true;
                return Ok(());
            }
            if value.eq_ignore_ascii_case(b"keep-alive") {
                return Ok(());
            }
        }
        14 if is("content-length") => {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
            if !digits || length.is_none() || response.length.is_some() {
                return Err(PyValueError::new_err(
                    "invalid Content-Length in a response",
                ));
            }
            response.length = length;
        }
        17 if is("transfer-encoding") => {
            // The body of the messages is never encoded: the server does it.
            if value.eq_ignore_ascii_case(b"chunked") {
                return Ok(());
            }
            return Err(PyValueError::new_err("the server sets Transfer-Encoding"));
        }
        _ => {}
    }
    append(&mut response.head, name, value);
    Ok(())
}

/// Appends a header line.
pub fn append(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

pub fn check_header(name: &[u8], value: &[u8]) -> PyResult<()> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(is_token) {
        return Err(PyValueError::new_err("invalid name of a response header"));
    }
    let is_control = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
    match value.iter().any(is_control) {
        true => Err(PyValueError::new_err("invalid value of a response header")),
        false => Ok(()),
    }
}

pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a Teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}
