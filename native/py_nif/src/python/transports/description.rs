//! How a transport looks from outside: its class, its repr, what it says in debug mode.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::base::Transport;
use super::kind::Kind;
use crate::python::gil_cell::GilCell;

impl Transport {
    /// What `isinstance` sees: a subclass of asyncio's transport. It cannot be a real base,
    /// because its `__slots__` would stand where the native fields are.
    pub fn seen_class(&self, py: Python<'_>) -> PyResult<Py<PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 4] = [const { PyOnceLock::new() }; 4];
        let class = &CLASSES[self.kind as usize];
        let class = class.import(py, "erlang_loop.transports", self.kind.class_name())?;
        Ok(class.clone().unbind())
    }

    /// As asyncio describes its own.
    pub fn describe(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let this = slf.get();
        let closed = this.file.with(py, |file| file.is_none());
        let mut words = vec![this.kind.class_name().to_owned()];
        if closed {
            words.push("closed".to_owned());
        } else if this.closing.get(py) {
            words.push("closing".to_owned());
        }
        words.push(format!("fd={}", this.fd));
        let open = this.owner.with(py, |owner| owner.is_some());
        let word = |watch: &GilCell<bool>| if watch.get(py) { "polling" } else { "idle" };
        let size = || {
            slf.call_method0("get_write_buffer_size")?
                .extract::<usize>()
        };
        match this.kind {
            Kind::ReadPipe | Kind::WritePipe if closed => words.push("closed".to_owned()),
            Kind::ReadPipe => words.push(word(&this.reading).to_owned()),
            Kind::WritePipe => {
                words.push(word(&this.writing).to_owned());
                words.push(format!("bufsize={}", size()?));
            }
            Kind::Stream | Kind::Datagram if open => {
                words.push(format!("read={}", word(&this.reading)));
                words.push(format!(
                    "write=<{}, bufsize={}>",
                    word(&this.writing),
                    size()?
                ));
            }
            Kind::Stream | Kind::Datagram => {}
        }
        Ok(format!("<{}>", words.join(" ")))
    }

    pub fn log_debug(slf: &Bound<'_, Self>, text: &str) -> PyResult<()> {
        Self::log(slf, "debug", text)
    }

    /// In debug mode, as asyncio: the transport is the argument of `text`.
    pub fn log(slf: &Bound<'_, Self>, level: &str, text: &str) -> PyResult<()> {
        let py = slf.py();
        match slf.get().owner.cloned(py) {
            Some(owner) if owner.get().debug.get(py) => {
                let logger = py.import("asyncio.log")?.getattr("logger")?;
                logger.call_method1(level, (text, slf)).map(drop)
            }
            _ => Ok(()),
        }
    }
}
