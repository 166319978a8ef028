//! WebSockets without input and output: `_native.WebSocketFrames`, which `erlang_loop/asgi/websocket.py`
//! asks what bytes mean and what to send.
//!
//! | file | contents |
//! |---|---|
//! | `frames` | frames of RFC 6455 |
//! | `deflate` | permessage-deflate |

mod deflate;
mod frames;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::cpython::cells::gil_cell::GilCell;
use deflate::{Deflater, Inflater};
use frames::{CLOSE, Decoder, Event, PING, PONG};

/// The frames of one WebSocket, on the server's side.
#[pyclass(frozen, module = "erlang_loop._native")]
pub struct WebSocketFrames {
    decoder: GilCell<Decoder>,
    deflater: GilCell<Option<Deflater>>,
}

#[pymethods]
impl WebSocketFrames {
    /// `deflate`: whether the server forgets the messages before, whether the client does, and the
    /// bits of the server's window.
    #[new]
    #[pyo3(signature = (max_size, deflate=None))]
    fn new(max_size: usize, deflate: Option<(bool, bool, u8)>) -> PyResult<Self> {
        if let Some((_, _, window)) = deflate
            && !(9..=15).contains(&window)
        {
            return Err(PyValueError::new_err("the window has 9 to 15 bits"));
        }
        let inflater = deflate.map(|(_, client_forgets, _)| Inflater::new(client_forgets));
        let deflater = deflate.map(|(forgets, _, window)| Deflater::new(forgets, window));
        Ok(WebSocketFrames {
            decoder: GilCell::new(Decoder::new(max_size, inflater)),
            deflater: GilCell::new(deflater),
        })
    }

    /// What the bytes complete: messages as `str` or `bytes`, and tuples `("ping", data)`,
    /// `("pong", data)`, `("close", code, reason)`, `("failed", code, reason)`. Nothing follows one of
    /// the last two.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyList>> {
        let bytes = data.as_bytes();
        let events = self.decoder.with(py, |decoder| decoder.receive(bytes));
        let list = PyList::empty(py);
        for event in events {
            list.append(as_object(py, event)?)?;
        }
        Ok(list)
    }

    /// The frame of a message, compressed if the extension is in use.
    fn message<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (is_text, data) = match data.cast::<PyString>() {
            Ok(text) => (true, text.encode_utf8()?),
            Err(_) => (false, bytes_of(data)?),
        };
        let payload = data.as_bytes();
        let compressed = self.deflater.with(py, |deflater| {
            deflater
                .as_mut()
                .and_then(|deflater| deflater.deflate(payload))
        });
        let opcode = frames::data_opcode(is_text);
        let frame = match compressed {
            Some(compressed) => frames::encode(opcode, true, &compressed),
            None => frames::encode(opcode, false, payload),
        };
        Ok(PyBytes::new(py, &frame))
    }

    /// The close frame. 1005 has no code in it.
    fn close<'py>(
        &self,
        py: Python<'py>,
        code: u16,
        reason: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut payload = Vec::new();
        if code != 1005 {
            if !frames::is_valid(code) {
                return Err(PyValueError::new_err(format!("invalid close code {code}")));
            }
            payload.extend_from_slice(&code.to_be_bytes());
            payload.extend_from_slice(reason.as_bytes());
            if payload.len() > 125 {
                return Err(PyValueError::new_err("the reason has more than 123 bytes"));
            }
        }
        Ok(PyBytes::new(py, &frames::encode(CLOSE, false, &payload)))
    }

    fn ping<'py>(&self, py: Python<'py>, data: &Bound<'py, PyBytes>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &frames::encode(PING, false, data.as_bytes()))
    }

    fn pong<'py>(&self, py: Python<'py>, data: &Bound<'py, PyBytes>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &frames::encode(PONG, false, data.as_bytes()))
    }
}

fn bytes_of<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    match data.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone()),
        Err(_) => {
            // bytes(7) would be seven zeros.
            let view = data
                .py()
                .get_type::<pyo3::types::PyMemoryView>()
                .call1((data,));
            let Ok(view) = view else {
                return Err(PyTypeError::new_err("a message is text or bytes"));
            };
            let bytes = data.py().get_type::<PyBytes>().call1((view,))?;
            Ok(bytes.cast_into()?)
        }
    }
}

fn as_object(py: Python<'_>, event: Event) -> PyResult<Bound<'_, PyAny>> {
    let pair = |name: &str, data: &[u8]| {
        PyTuple::new(
            py,
            [
                PyString::new(py, name).into_any(),
                PyBytes::new(py, data).into_any(),
            ],
        )
    };
    Ok(match event {
        Event::Text(text) => PyString::new(py, &text).into_any(),
        Event::Binary(data) => PyBytes::new(py, &data).into_any(),
        Event::Ping(data) => pair("ping", &data)?.into_any(),
        Event::Pong(data) => pair("pong", &data)?.into_any(),
        Event::Close(code, reason) => ("close", code, reason).into_pyobject(py)?.into_any(),
        Event::Failed(code, why) => ("failed", code, why).into_pyobject(py)?.into_any(),
    })
}
