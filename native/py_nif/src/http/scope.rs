//! The dictionary that describes a request to the application.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxHashMap;

use super::head::Head;
use super::preface::Addresses;

/// Names of headers that clients usually send, as objects that all requests share.
const USUAL: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "authorization",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if-modified-since",
    "if-none-match",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "range",
    "referer",
    "sec-ch-ua",
    "sec-ch-ua-mobile",
    "sec-ch-ua-platform",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "te",
    "traceparent",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];

/// A copy of the connection's template with what only this request has.
pub fn of_request<'py>(
    template: &Bound<'py, PyDict>,
    head: &Head<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = template.py();
    let scope = template.copy()?;
    let (raw_path, query) = split_target(head.target);
    let root = template.get_item(intern!(py, "root_path"))?;
    let root = root.as_ref().and_then(|root| root.cast::<PyString>().ok());
    scope.set_item(
        intern!(py, "type"),
        match head.websocket {
            false => intern!(py, "http"),
            true => intern!(py, "websocket"),
        },
    )?;
    scope.set_item(
        intern!(py, "http_version"),
        match head.version {
            0 => intern!(py, "1.0"),
            _ => intern!(py, "1.1"),
        },
    )?;
    if !head.websocket {
        scope.set_item(intern!(py, "method"), method(py, head.method))?;
    } else {
        let scheme = template.get_item(intern!(py, "scheme"))?;
        let secure = scheme.is_some_and(|scheme| scheme.eq("https").unwrap_or(false));
        let scheme = match secure {
            false => intern!(py, "ws"),
            true => intern!(py, "wss"),
        };
        scope.set_item(intern!(py, "scheme"), scheme)?;
        scope.set_item(intern!(py, "subprotocols"), subprotocols(py, head)?)?;
    }
    let path = decoded(raw_path);
    let root = match root {
        Some(root) => root.to_cow()?,
        None => "".into(),
    };
    match root.is_empty() {
        true => scope.set_item(intern!(py, "path"), path.as_ref())?,
        false => scope.set_item(intern!(py, "path"), format!("{root}{path}"))?,
    }
    let raw = match root.is_empty() {
        true => PyBytes::new(py, raw_path.as_bytes()),
        false => PyBytes::new(py, format!("{root}{raw_path}").as_bytes()),
    };
    scope.set_item(intern!(py, "raw_path"), raw)?;
    scope.set_item(
        intern!(py, "query_string"),
        PyBytes::new(py, query.as_bytes()),
    )?;
    scope.set_item(intern!(py, "headers"), headers(py, head)?)?;
    if let Some(state) = template.get_item(intern!(py, "state"))?
        && let Ok(state) = state.cast::<PyDict>()
    {
        scope.set_item(intern!(py, "state"), state.copy()?)?;
    }
    Ok(scope)
}

/// The path and the query of a target in origin or absolute form.
fn split_target(target: &str) -> (&str, &str) {
    let target = match target.find("://") {
        Some(scheme) if !target.starts_with('/') => {
            let rest = &target[scheme + 3..];
            let path = rest.find(['/', '?']).unwrap_or(rest.len());
            &rest[path..]
        }
        _ => target,
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (if path.is_empty() { "/" } else { path }, query)
}

/// Percent-encoded bytes replaced; what is not UTF-8 then becomes U+FFFD.
fn decoded(path: &str) -> std::borrow::Cow<'_, str> {
    if !path.contains('%') {
        return path.into();
    }
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let digit = |byte: u8| (byte as char).to_digit(16);
    while at < bytes.len() {
        let pair = (bytes.get(at + 1), bytes.get(at + 2));
        let value = match (bytes[at], pair) {
            (b'%', (Some(high), Some(low))) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match value {
            Some((high, low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned().into()
}

fn method<'py>(py: Python<'py>, method: &str) -> Bound<'py, PyString> {
    match method {
        "GET" => intern!(py, "GET").clone(),
        "POST" => intern!(py, "POST").clone(),
        "PUT" => intern!(py, "PUT").clone(),
        "HEAD" => intern!(py, "HEAD").clone(),
        "DELETE" => intern!(py, "DELETE").clone(),
        "PATCH" => intern!(py, "PATCH").clone(),
        "OPTIONS" => intern!(py, "OPTIONS").clone(),
        other => PyString::new(py, other),
    }
}

fn subprotocols<'py>(py: Python<'py>, head: &Head<'_>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for header in head.headers {
        if header.name.eq_ignore_ascii_case("sec-websocket-protocol") {
            for name in String::from_utf8_lossy(header.value).split(',') {
                list.append(name.trim())?;
            }
        }
    }
    Ok(list)
}

/// Pairs of bytes, names in lower case.
fn headers<'py>(py: Python<'py>, head: &Head<'_>) -> PyResult<Bound<'py, PyList>> {
    let usual = usual(py);
    let mut pairs = Vec::with_capacity(head.headers.len());
    for header in head.headers {
        let value = PyBytes::new(py, header.value);
        pairs.push(PyTuple::new(py, [name(py, usual, header.name), value])?);
    }
    PyList::new(py, pairs)
}

type Usual = FxHashMap<&'static [u8], Py<PyBytes>>;

fn usual(py: Python<'_>) -> &Usual {
    static NAMES: PyOnceLock<Usual> = PyOnceLock::new();
    NAMES.get_or_init(py, || {
        let names = USUAL.iter().map(|name| name.as_bytes());
        names
            .map(|name| (name, PyBytes::new(py, name).unbind()))
            .collect()
    })
}

fn name<'py>(py: Python<'py>, usual: &Usual, name: &str) -> Bound<'py, PyBytes> {
    let mut short = [0; 32];
    if let Some(short) = short.get_mut(..name.len()) {
        short.copy_from_slice(name.as_bytes());
        short.make_ascii_lowercase();
        let short: &[u8] = short;
        return match usual.get(short) {
            Some(known) => known.bind(py).clone(),
            None => PyBytes::new(py, short),
        };
    }
    PyBytes::new(py, name.to_ascii_lowercase().as_bytes())
}

/// A copy of the server's template with the addresses of a connection.
pub fn of_connection<'py>(
    template: &Bound<'py, PyDict>,
    transport: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = transport.py();
    let template = template.copy()?;
    for (key, info) in [("client", "peername"), ("server", "sockname")] {
        let address = transport.call_method1(intern!(py, "get_extra_info"), (info,))?;
        template.set_item(key, host_and_port(&address)?)?;
    }
    Ok(template)
}

/// The addresses that a proxy has sent, instead of its own.
pub fn of_proxy(template: &Bound<'_, PyDict>, addresses: &Addresses) -> PyResult<()> {
    for (key, address) in [("client", addresses.client), ("server", addresses.server)] {
        template.set_item(key, (address.ip().to_string(), address.port()))?;
    }
    Ok(())
}

/// The first two of an IPv4 or IPv6 address; the path of a Unix socket as the server, without port.
fn host_and_port<'py>(address: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let py = address.py();
    if let Ok(address) = address.cast::<PyTuple>()
        && address.len() >= 2
    {
        return Ok(Some(address.get_slice(0, 2)));
    }
    match address.cast::<PyString>() {
        Ok(path) if !path.to_str()?.is_empty() => {
            Ok(Some(PyTuple::new(py, [path.as_any(), py.None().bind(py)])?))
        }
        _ => Ok(None),
    }
}
