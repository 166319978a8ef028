//! The methods of transports that every request of a server calls: `fast_method` explains why they
//! are fast; `base` and `stream` have the others.

use std::ffi::CStr;

use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::base::Transport;
use crate::cpython::fast_method::{CallArguments, FastMethod, FastMethod0, install, install0};
use crate::io::datagram::transport::DatagramTransport;
use crate::io::stream::transport::StreamTransport;

/// Adds them to the classes.
pub fn add(py: Python<'_>) -> PyResult<()> {
    let base = py.get_type::<Transport>();
    install::<GetExtraInfo>(&base)?;
    install0::<GetProtocol>(&base)?;
    install0::<IsClosing>(&base)?;
    install0::<Close>(&base)?;
    let stream = py.get_type::<StreamTransport>();
    install::<Write>(&stream)?;
    install::<WriteLines>(&stream)?;
    install0::<GetWriteBufferSize>(&stream)?;
    install0::<IsReading>(&stream)?;
    install0::<PauseReading>(&stream)?;
    install0::<ResumeReading>(&stream)?;
    install::<SendTo>(&py.get_type::<DatagramTransport>())
}

fn nothing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Ok(py.None().into_bound(py))
}

fn bool(py: Python<'_>, value: bool) -> PyResult<Bound<'_, PyAny>> {
    Ok(PyBool::new(py, value).to_owned().into_any())
}

struct GetExtraInfo;

impl FastMethod for GetExtraInfo {
    type Class = Transport;
    const NAME: &'static CStr = c"get_extra_info";
    const DOC: &'static CStr =
        c"get_extra_info($self, name, default=None)\n--\n\nWhat is known of the connection.";

    fn call<'py>(
        slf: &Bound<'py, Transport>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (name, default) = arguments.or_default("get_extra_info", ["name", "default"])?;
        if let Ok(stream) = slf.cast::<StreamTransport>()
            && stream.get().flush_pending.get(slf.py())
            && name.eq("socket")?
        {
            // The caller may shut the socket down.
            StreamTransport::flush_deferred(stream)?;
        }
        slf.get()
            .extra(&name, default.map(|default| default.to_owned()))
    }
}

struct GetProtocol;

impl FastMethod0 for GetProtocol {
    type Class = Transport;
    const NAME: &'static CStr = c"get_protocol";
    const DOC: &'static CStr = c"get_protocol($self)\n--\n\nThe protocol, until the end.";

    fn call<'py>(slf: &Bound<'py, Transport>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let protocol = slf.get().protocol.cloned(py);
        Ok(protocol.unwrap_or_else(|| py.None()).into_bound(py))
    }
}

struct IsClosing;

impl FastMethod0 for IsClosing {
    type Class = Transport;
    const NAME: &'static CStr = c"is_closing";
    const DOC: &'static CStr = c"is_closing($self)\n--\n\nWhether it is closed, or about to be.";

    fn call<'py>(slf: &Bound<'py, Transport>) -> PyResult<Bound<'py, PyAny>> {
        bool(slf.py(), slf.get().closing.get(slf.py()))
    }
}

struct Close;

impl FastMethod0 for Close {
    type Class = Transport;
    const NAME: &'static CStr = c"close";
    const DOC: &'static CStr = c"close($self)\n--\n\nClose it, after what is written is sent.";

    fn call<'py>(slf: &Bound<'py, Transport>) -> PyResult<Bound<'py, PyAny>> {
        Transport::end(slf)?;
        nothing(slf.py())
    }
}

struct Write;

impl FastMethod for Write {
    type Class = StreamTransport;
    const NAME: &'static CStr = c"write";
    const DOC: &'static CStr = c"write($self, data)\n--\n\nSend data, now or when it can be.";

    #[inline]
    fn call<'py>(
        slf: &Bound<'py, StreamTransport>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [data] = arguments.exactly("write", ["data"])?;
        StreamTransport::write_data(slf, &data)?;
        nothing(slf.py())
    }
}

struct SendTo;

impl FastMethod for SendTo {
    type Class = DatagramTransport;
    const NAME: &'static CStr = c"sendto";
    const DOC: &'static CStr = c"sendto($self, data, addr=None)\n--\n\nSends a datagram.";

    fn call<'py>(
        slf: &Bound<'py, DatagramTransport>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (data, addr) = arguments.or_default("sendto", ["data", "addr"])?;
        let addr = addr.filter(|addr| !addr.is_none());
        DatagramTransport::send_to(slf, &data, addr.map(|addr| addr.to_owned()))?;
        nothing(slf.py())
    }
}

struct WriteLines;

impl FastMethod for WriteLines {
    type Class = StreamTransport;
    const NAME: &'static CStr = c"writelines";
    const DOC: &'static CStr =
        c"writelines($self, list_of_data)\n--\n\nSend several pieces of data as one.";

    fn call<'py>(
        slf: &Bound<'py, StreamTransport>,
        arguments: CallArguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [list] = arguments.exactly("writelines", ["list_of_data"])?;
        StreamTransport::write_list(slf, &list)?;
        nothing(slf.py())
    }
}

struct GetWriteBufferSize;

impl FastMethod0 for GetWriteBufferSize {
    type Class = StreamTransport;
    const NAME: &'static CStr = c"get_write_buffer_size";
    const DOC: &'static CStr = c"get_write_buffer_size($self)\n--\n\nBytes that wait to be sent.";

    fn call<'py>(slf: &Bound<'py, StreamTransport>) -> PyResult<Bound<'py, PyAny>> {
        let size = StreamTransport::waiting_size(slf)?;
        Ok(size.into_pyobject(slf.py())?.into_any())
    }
}

struct IsReading;

impl FastMethod0 for IsReading {
    type Class = StreamTransport;
    const NAME: &'static CStr = c"is_reading";
    const DOC: &'static CStr = c"is_reading($self)\n--\n\nWhether data is received.";

    fn call<'py>(slf: &Bound<'py, StreamTransport>) -> PyResult<Bound<'py, PyAny>> {
        bool(slf.py(), slf.as_super().get().reads(slf.py()))
    }
}

struct PauseReading;

impl FastMethod0 for PauseReading {
    type Class = StreamTransport;
    const NAME: &'static CStr = c"pause_reading";
    const DOC: &'static CStr = c"pause_reading($self)\n--\n\nReceive nothing for a while.";

    fn call<'py>(slf: &Bound<'py, StreamTransport>) -> PyResult<Bound<'py, PyAny>> {
        Transport::pause_reading(slf.as_super())?;
        nothing(slf.py())
    }
}

struct ResumeReading;

impl FastMethod0 for ResumeReading {
    type Class = StreamTransport;
    const NAME: &'static CStr = c"resume_reading";
    const DOC: &'static CStr = c"resume_reading($self)\n--\n\nReceive data again.";

    fn call<'py>(slf: &Bound<'py, StreamTransport>) -> PyResult<Bound<'py, PyAny>> {
        Transport::resume_reading(slf.as_super())?;
        nothing(slf.py())
    }
}
