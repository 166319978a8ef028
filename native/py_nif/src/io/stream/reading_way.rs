//! How a protocol takes the data that a stream transport reads.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::stream_reader;
use crate::io::tls::TlsPath;

#[derive(Clone, Copy)]
pub enum Way {
    /// `data_received(bytes)`.
    Data,
    /// Into its own buffers: asyncio.BufferedProtocol.
    Buffer,
    /// As `Data`, by asyncio's StreamReaderProtocol: entirely native.
    StreamReader,
    /// TLS records, for our own TLS protocol.
    Tls,
}

impl Way {
    pub fn of(protocol: &Bound<'_, PyAny>) -> PyResult<Self> {
        static BUFFERED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let class = BUFFERED.import(protocol.py(), "asyncio.protocols", "BufferedProtocol")?;
        if protocol.is_instance_of::<TlsPath>() {
            Ok(Way::Tls)
        } else if stream_reader::feeds_one(protocol)? {
            Ok(Way::StreamReader)
        } else if protocol.is_instance(class)? {
            Ok(Way::Buffer)
        } else {
            Ok(Way::Data)
        }
    }
}
