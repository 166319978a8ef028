//! The engine of the ASGI server: from the bytes of a connection to an application's task, and from
//! its messages to bytes.
//!
//! | module | contents |
//! |---|---|
//! | [`head`] | a request's head: parsed, and refused if two readers could understand it differently |
//! | [`preface`] | the PROXY protocol: what a proxy says before the first head |
//! | [`input`] | what has arrived, in the order head, body, next head |
//! | [`server`] | what all connections of a server share: `_native.HttpServer` |
//! | [`numbers`] | what each server counts, for metrics |
//! | [`connection`] | the protocol of a connection: `_native.HttpConnection` |
//! | [`scope`] | the dictionary that describes a request to the application |
//! | [`request`] | one request with its response: `_native.HttpRequest` |
//! | [`receiving`] | `receive`: the body, piece by piece |
//! | [`sending`] | `send`: the order of messages, framing of the body |
//! | [`response`] | a response's head |
//! | [`websocket`] | frames of WebSockets: `_native.WebSocketFrames` |
//! | [`awaitable`] | what `receive` and `send` return |
//!
//! The Python half is `python/erlang_loop/asgi/`.

mod awaitable;
pub mod connection;
mod head;
mod input;
pub mod numbers;
mod preface;
mod receiving;
pub mod request;
mod response;
mod scope;
mod sending;
pub mod server;
pub mod websocket;

use pyo3::prelude::*;

/// Adds the classes to the native module.
pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<server::HttpServer>()?;
    module.add_class::<connection::HttpConnection>()?;
    module.add_class::<request::HttpRequest>()?;
    module.add_class::<websocket::WebSocketFrames>()?;
    module.add(
        "DisconnectedError",
        py.get_type::<sending::DisconnectedError>(),
    )?;
    connection::add_methods(py)?;
    request::add_methods(py)
}
