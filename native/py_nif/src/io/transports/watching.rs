//! Watching a transport's fd: when it is watched, and what happens when it is ready.

use event_loop::Direction;
use pyo3::prelude::*;

use super::base::Transport;
use crate::asyncio::handles::io_object::{IoClass, IoObject};
use crate::asyncio::loop_class::class::Loop;
use crate::asyncio::loop_class::fd_callbacks::{MODE, watch_error};
use crate::asyncio::turn::item;
use crate::cpython::cells::gil_slot::GilSlot;
use crate::cpython::context;

impl Transport {
    fn flag(&self, direction: Direction) -> &GilSlot<bool> {
        match direction {
            Direction::Read => &self.reading,
            Direction::Write => &self.writing,
        }
    }

    fn context(&self, direction: Direction) -> &GilSlot<Option<Py<PyAny>>> {
        match direction {
            Direction::Read => &self.read_context,
            Direction::Write => &self.write_context,
        }
    }

    /// Reading and writing run in the context of the code that calls this.
    pub fn watch(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.flag(direction).get(py) {
            return Ok(());
        }
        let fresh = this.new_context(py)?;
        drop(this.context(direction).replace(py, Some(fresh)));
        Self::watch_again(slf, direction)
    }

    /// As [`watch`](Self::watch), in the context that is set already.
    pub fn watch_again(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner(py)?;
        let native = owner.get().native(py)?;
        let core = &native.core;
        core.watch(this.fd, direction, 0, MODE)
            .map_err(watch_error)?;
        this.flag(direction).set(py, true);
        Loop::set_watcher(&owner, this.fd, direction, IoObject::new(slf).into())
    }

    pub fn unwatch(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.flag(direction).replace(py, false) {
            return Ok(());
        }
        if let Some(owner) = this.owner.cloned(py) {
            drop(owner.get().remove_watcher(py, this.fd, direction));
        }
        Ok(())
    }

    /// The fd is ready, or was when the turn began.
    pub fn handle(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let active = this.flag(direction).get(py) && this.lost.get(py) == 0;
        let Some(context) = this.context(direction).cloned(py).filter(|_| active) else {
            return Ok(());
        };
        let context = context.into_bound(py);
        context::enter(py, context.as_unbound())?;
        let result = Self::move_data(slf, direction);
        context::leave(py, context.as_unbound())?;
        result
    }

    pub fn reads(&self, py: Python<'_>) -> bool {
        !self.closing.get(py) && !self.paused.get(py)
    }

    pub fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.reads(py) {
            this.paused.set(py, true);
            Self::unwatch(slf, Direction::Read)?;
            Self::log_debug(slf, "%r pauses reading")?;
        }
        Ok(())
    }

    pub fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.closing.get(py) && this.paused.get(py) {
            this.paused.set(py, false);
            Self::watch(slf, Direction::Read)?;
            Self::log_debug(slf, "%r resumes reading")?;
        }
        Ok(())
    }
}

impl IoClass for Transport {
    fn ready(
        slf: &Bound<'_, Self>,
        event_loop: &Bound<'_, Loop>,
        direction: Direction,
    ) -> PyResult<()> {
        item::run_as_callback(event_loop, slf, || Self::handle(slf, direction))
    }

    fn flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::flush_deferred(slf)
    }
}
