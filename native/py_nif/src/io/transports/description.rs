//! How a transport presents itself: its class, its repr, its debug logs.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::base::Transport;
use super::kind::{KINDS, TransportKind};
use crate::cpython::cells::gil_slot::GilSlot;

impl Transport {
    /// The class that `isinstance` sees: a subclass of asyncio's transport. It cannot be a real
    /// base, because its `__slots__` would be where the native fields are.
    pub fn seen_class(&self, py: Python<'_>) -> PyResult<Py<PyType>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; KINDS] = [const { PyOnceLock::new() }; KINDS];
        let class = &CLASSES[self.kind as usize];
        let class = class.import(py, "erlang_loop.loop.io.transports", self.kind.class_name())?;
        Ok(class.clone().unbind())
    }

    /// As asyncio describes its own transports.
    pub fn describe(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let this = slf.get();
        let mut words = vec![this.kind.class_name().to_owned()];
        if this.is_closed(py) {
            words.push("closed".to_owned());
        } else if this.closing.get(py) {
            words.push("closing".to_owned());
        }
        words.push(format!("fd={}", this.fd));
        match this.kind.is_socket() {
            true => Self::describe_socket(slf, &mut words)?,
            false => Self::describe_pipe(slf, &mut words)?,
        }
        Ok(format!("<{}>", words.join(" ")))
    }

    fn describe_socket(slf: &Bound<'_, Self>, words: &mut Vec<String>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.owner.look(py, |owner| owner.is_some()) {
            let size = slf.call_method0("get_write_buffer_size")?;
            words.push(format!("read={}", word(py, &this.reading)));
            words.push(format!(
                "write=<{}, bufsize={size}>",
                word(py, &this.writing)
            ));
        }
        Ok(())
    }

    fn describe_pipe(slf: &Bound<'_, Self>, words: &mut Vec<String>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let loop_is_closed = match this.owner.cloned(py) {
            Some(owner) => owner.call_method0(py, "is_closed")?.is_truthy(py)?,
            None => true,
        };
        if this.is_closed(py) {
            words.push("closed".to_owned());
        } else if loop_is_closed {
            words.push("open".to_owned());
        } else if this.kind == TransportKind::ReadPipe {
            words.push(word(py, &this.reading).to_owned());
        } else {
            let size = slf.call_method0("get_write_buffer_size")?;
            words.push(word(py, &this.writing).to_owned());
            words.push(format!("bufsize={size}"));
        }
        Ok(())
    }

    pub fn is_closed(&self, py: Python<'_>) -> bool {
        self.file.look(py, |file| file.is_none())
    }

    pub fn log_debug(slf: &Bound<'_, Self>, text: &str) -> PyResult<()> {
        Self::log(slf, "debug", text)
    }

    /// Logs in debug mode, as asyncio does: the transport is the argument of `text`.
    pub fn log(slf: &Bound<'_, Self>, level: &str, text: &str) -> PyResult<()> {
        let py = slf.py();
        match slf.get().owner.cloned(py) {
            Some(owner) if owner.get().state.debug.get(py) => {
                let logger = py.import("asyncio.log")?.getattr("logger")?;
                logger.call_method1(level, (text, slf)).map(drop)
            }
            _ => Ok(()),
        }
    }
}

fn word(py: Python<'_>, watch: &GilSlot<bool>) -> &'static str {
    match watch.get(py) {
        true => "polling",
        false => "idle",
    }
}
