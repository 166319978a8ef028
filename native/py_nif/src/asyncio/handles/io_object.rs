//! Objects of `io` in the tables and queues of a loop: transports, and operations on sockets. The
//! loop calls them through a table of functions, because it must not know what they are.

use event_loop::Direction;
use pyo3::PyClass;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::asyncio::loop_class::class::Loop;

/// A class of such objects.
pub trait IoClass: PyClass {
    /// The fd is ready. The turn calls this, also for a watch that may have ended since.
    fn ready(
        slf: &Bound<'_, Self>,
        event_loop: &Bound<'_, Loop>,
        direction: Direction,
    ) -> PyResult<()>;

    /// Sends what waits only for the end of the callback.
    fn flush(_slf: &Bound<'_, Self>) -> PyResult<()> {
        Ok(())
    }

    /// The fd has another watcher now.
    fn replaced(_slf: &Bound<'_, Self>) {}
}

type Object<'a, 'py> = &'a Bound<'py, PyAny>;

/// The functions of one class.
struct Functions {
    ready: fn(Object<'_, '_>, &Bound<'_, Loop>, Direction) -> PyResult<()>,
    flush: fn(Object<'_, '_>) -> PyResult<()>,
    replaced: fn(Object<'_, '_>) -> PyResult<()>,
}

trait HasFunctions {
    const FUNCTIONS: Functions;
}

impl<T: IoClass> HasFunctions for T {
    const FUNCTIONS: Functions = Functions {
        ready: |object, event_loop, direction| T::ready(object.cast()?, event_loop, direction),
        flush: |object| T::flush(object.cast()?),
        replaced: |object| {
            T::replaced(object.cast()?);
            Ok(())
        },
    };
}

pub struct IoObject {
    object: Py<PyAny>,
    functions: &'static Functions,
}

impl IoObject {
    pub fn new<T: IoClass>(object: &Bound<'_, T>) -> Self {
        IoObject {
            object: object.clone().into_any().unbind(),
            functions: const { &T::FUNCTIONS },
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        IoObject {
            object: self.object.clone_ref(py),
            functions: self.functions,
        }
    }

    pub fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    pub fn into_object(self) -> Py<PyAny> {
        self.object
    }

    /// See [`IoClass::ready`]. The object is bound before it is dropped: that is faster in code
    /// known to be attached.
    #[inline]
    pub fn ready(self, event_loop: &Bound<'_, Loop>, direction: Direction) -> PyResult<()> {
        let object = self.object.into_bound(event_loop.py());
        (self.functions.ready)(&object, event_loop, direction)
    }

    /// See [`IoClass::flush`].
    pub fn flush(self, py: Python<'_>) -> PyResult<()> {
        (self.functions.flush)(&self.object.into_bound(py))
    }

    /// See [`IoClass::replaced`].
    pub fn replaced(&self, py: Python<'_>) -> PyResult<()> {
        (self.functions.replaced)(self.object.bind(py))
    }

    pub fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)
    }
}

/// What `io` runs once, in a turn, where asyncio has a callback.
pub trait RunOnce: Send {
    fn run(self: Box<Self>, event_loop: &Bound<'_, Loop>) -> PyResult<()>;

    /// The object to name in reports.
    fn source(&self) -> &Py<PyAny>;

    fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError>;
}
