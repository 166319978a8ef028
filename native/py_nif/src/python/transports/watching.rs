//! What a transport is told by the loop: that its fd is ready. And when it wants to be told.

use event_loop::Direction;
use pyo3::prelude::*;

use super::base::Transport;
use crate::python::context;
use crate::python::fd_callbacks::{watch_error, Watcher, MODE};
use crate::python::gil_cell::GilCell;
use crate::python::loop_class::Loop;

impl Transport {
    fn flag(&self, direction: Direction) -> &GilCell<bool> {
        match direction {
            Direction::Read => &self.reading,
            Direction::Write => &self.writing,
        }
    }

    fn context(&self, direction: Direction) -> &GilCell<Option<Py<PyAny>>> {
        match direction {
            Direction::Read => &self.read_context,
            Direction::Write => &self.write_context,
        }
    }

    pub fn watch(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.flag(direction).get(py) {
            return Ok(());
        }
        let owner = this.owner(py)?;
        let fresh = context::copy_current(py)?;
        drop(this.context(direction).replace(py, Some(fresh)));
        let native = owner.get().native(py)?;
        let core = &native.core;
        core.watch(this.fd, direction, 0, MODE)
            .map_err(watch_error)?;
        this.flag(direction).set(py, true);
        let watcher = Watcher::Transport(slf.clone().unbind());
        Loop::set_watcher(&owner, this.fd, direction, watcher)
    }

    pub fn unwatch(&self, py: Python<'_>, direction: Direction) {
        if !self.flag(direction).replace(py, false) {
            return;
        }
        if let Some(owner) = self.owner.cloned(py) {
            drop(owner.get().remove_watcher(py, self.fd, direction));
        }
    }

    /// The fd is ready: called by the turn, for a watch that may have ended since.
    pub fn ready(slf: &Bound<'_, Self>, direction: Direction) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let active = this.flag(direction).get(py) && this.lost.get(py) == 0;
        let Some(context) = this.context(direction).cloned(py).filter(|_| active) else {
            return Ok(());
        };
        context::enter(py, &context)?;
        let result = Self::move_data(slf, direction);
        context::leave(py, &context)?;
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
            this.unwatch(py, Direction::Read);
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
