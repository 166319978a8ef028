//! A request's head: parsed by httparse, and refused if two readers could understand it differently.
//! Most attacks on chains of servers need such a request ("request smuggling"); the texts of the
//! refusals name the rules, which are those of RFC 9110 and 9112.

use std::mem::MaybeUninit;

use httparse::{Error, Header, ParserConfig, Request, Status};

/// More are refused.
pub const MOST_HEADERS: usize = 128;

/// A request that gets no further than its head, with the status and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub u16, pub &'static str);

const fn bad(reason: &'static str) -> Refusal {
    Refusal(400, reason)
}

/// How the body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
}

pub struct Head<'a> {
    pub method: &'a str,
    pub target: &'a str,
    /// The minor version of HTTP/1.
    pub version: u8,
    pub headers: &'a [Header<'a>],
    pub framing: Framing,
    pub keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    pub websocket: bool,
}

/// Finds the end of the head in `bytes`, of which the first `scanned` have been searched before.
/// Lines end with CRLF: a bare LF is where readers differ.
pub fn find_end(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, Refusal> {
    for at in memchr::memchr_iter(b'\n', &bytes[*scanned..]) {
        let at = *scanned + at;
        if at == 0 || bytes[at - 1] != b'\r' {
            return Err(bad("a line ends with a bare LF"));
        }
        if at >= 3 && bytes[at - 2] == b'\n' {
            *scanned = 0;
            return Ok(Some(at + 1));
        }
    }
    *scanned = bytes.len();
    Ok(None)
}

/// Parses a complete head, and passes it to `take`.
pub fn parse<R>(bytes: &[u8], take: impl FnOnce(Head<'_>) -> R) -> Result<R, Refusal> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut request = Request::new(&mut []);
    let parsed = ParserConfig::default().parse_request_with_uninit_headers(
        &mut request,
        bytes,
        &mut headers,
    );
    match parsed {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Err(bad("the head is incomplete")),
        Err(Error::Version) if !has_three_words(bytes) => {
            return Err(bad("invalid request line"));
        }
        Err(error) => return Err(refusal(error)),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(bad("the request line is incomplete"));
    };
    check_target(method, target)?;
    let mut fields = Fields::default();
    for header in request.headers.iter() {
        fields.add(header, version)?;
    }
    let head = fields.head(method, target, version, request.headers)?;
    Ok(take(head))
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Version => Refusal(505, "only HTTP/1.0 and HTTP/1.1 are supported"),
        Error::TooManyHeaders => Refusal(431, "too many headers"),
        Error::HeaderName => bad("invalid header name"),
        Error::HeaderValue => bad("invalid header value"),
        Error::NewLine => bad("invalid line end"),
        _ => bad("invalid request line"),
    }
}

/// Whether the first line has a method, a target and a version.
fn has_three_words(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or(bytes);
    line.iter().filter(|byte| **byte == b' ').count() == 2
}

fn check_target(method: &str, target: &str) -> Result<(), Refusal> {
    if method == "CONNECT" {
        return Err(Refusal(501, "CONNECT is not supported"));
    }
    if !target.is_ascii() || target.contains('#') {
        return Err(bad("invalid request target"));
    }
    let absolute = || {
        let scheme = target.get(..8).unwrap_or(target).to_ascii_lowercase();
        scheme.starts_with("http://") || scheme.starts_with("https://")
    };
    match target.starts_with('/') || (target == "*" && method == "OPTIONS") || absolute() {
        true => Ok(()),
        false => Err(bad("invalid request target")),
    }
}

/// What the headers say together.
#[derive(Default)]
struct Fields {
    hosts: u32,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    to_websocket: bool,
    expects_continue: bool,
}

impl Fields {
    fn add(&mut self, header: &Header<'_>, version: u8) -> Result<(), Refusal> {
        let (name, value) = (header.name, header.value);
        // The length is compared first: few headers are of interest.
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 if is("host") => self.host(value)?,
            6 if is("expect") => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal(417, "unknown expectation"));
                }
                self.expects_continue = version == 1;
            }
            7 if is("upgrade") => self.to_websocket = value.eq_ignore_ascii_case(b"websocket"),
            10 if is("connection") => self.connection(value),
            14 if is("content-length") => self.content_length(value)?,
            17 if is("transfer-encoding") => self.transfer_encoding(value, version)?,
            _ => {}
        }
        Ok(())
    }

    fn host(&mut self, value: &[u8]) -> Result<(), Refusal> {
        self.hosts += 1;
        let separates = |byte: &u8| matches!(byte, b' ' | b'\t' | b'/' | b'@' | b',' | b'#' | b'?');
        match value.iter().any(separates) {
            true => Err(bad("invalid Host")),
            false => Ok(()),
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for token in value.split(|byte| *byte == b',') {
            let token = token.trim_ascii();
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade |= token.eq_ignore_ascii_case(b"upgrade");
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.length.is_some() {
            return Err(bad("several Content-Length headers"));
        }
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = digits.then(|| std::str::from_utf8(value).ok()?.parse().ok());
        match number.flatten() {
            Some(length) => self.length = Some(length),
            None => return Err(bad("invalid Content-Length")),
        }
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8], version: u8) -> Result<(), Refusal> {
        if version == 0 {
            return Err(bad("Transfer-Encoding in HTTP/1.0"));
        }
        if self.chunked {
            return Err(bad("several Transfer-Encoding headers"));
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal(501, "unknown Transfer-Encoding"));
        }
        self.chunked = true;
        Ok(())
    }

    fn head<'a>(
        &self,
        method: &'a str,
        target: &'a str,
        version: u8,
        headers: &'a [Header<'a>],
    ) -> Result<Head<'a>, Refusal> {
        if self.hosts > 1 {
            return Err(bad("several Host headers"));
        }
        if self.hosts == 0 && version == 1 {
            return Err(bad("no Host header"));
        }
        let framing = match (self.chunked, self.length) {
            (true, Some(_)) => return Err(bad("Content-Length with Transfer-Encoding")),
            (true, None) => Framing::Chunked,
            (false, length) => Framing::Length(length.unwrap_or(0)),
        };
        let websocket = self.upgrade && self.to_websocket && version == 1;
        if websocket && (method != "GET" || framing != Framing::Length(0)) {
            return Err(bad("a WebSocket is opened by GET, without a body"));
        }
        Ok(Head {
            method,
            target,
            version,
            headers,
            framing,
            keep_alive: !self.close && (version == 1 || self.keep_alive),
            expects_continue: self.expects_continue && framing != Framing::Length(0),
            websocket,
        })
    }
}
