//! What the garbage collector finds in a loop's queues: callbacks, and timers that wait.
//!
//! It ignores their handles (`collector`), and so would not see what they hold: a loop that is
//! forgotten with a timer would live for ever. A handle that nobody but the queue has is as good
//! as a part of the loop: the loop shows what that holds, in its place.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

#[cfg(not(Py_GIL_DISABLED))]
use super::collector;
use super::handle::Handle;
use super::loop_class::Loop;
use super::ready::Item;

/// PyO3's, which shows all the rest (`Loop::__traverse__`).
static FIRST: OnceLock<ffi::traverseproc> = OnceLock::new();

/// Called once, before there is a loop or a subclass.
pub fn install(py: Python<'_>) {
    let class = py.get_type::<Loop>().as_type_ptr();
    // SAFETY: attached; the class is a heap type of ours, whose slots its maker may set.
    unsafe {
        if let Some(first) = (*class).tp_traverse.replace(traverse) {
            let _ = FIRST.set(first);
        }
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector, attached, for a loop; it runs no Python code, and changes
    // no reference counts, nor do we. A collection calls this several times and relies on being
    // shown the same: what we look at does not change in between.
    unsafe {
        if let Some(first) = FIRST.get() {
            let answer = first(object, visit, arg);
            if answer != 0 {
                return answer;
            }
        }
        let py = Python::assume_attached();
        let this = Borrowed::from_ptr(py, object).cast_unchecked::<Loop>();
        let mut answer = 0;
        this.get().visit_queued(&mut |handle| {
            if answer == 0 {
                answer = show(handle, visit, arg);
            }
        });
        answer
    }
}

/// # Safety
/// As for `traverse`.
unsafe fn show(handle: &Py<Handle>, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    let pointer = handle.as_ptr();
    // SAFETY: a queue holds a reference to it, so it is alive; so is its context.
    unsafe {
        #[cfg(not(Py_GIL_DISABLED))]
        if ffi::PyObject_GC_IsTracked(pointer) == 0 {
            if !collector::is_only_ours(pointer) {
                // It counts as reached from outside, and what it holds is not garbage.
                return 0;
            }
            let answer = show_inside(pointer, visit, arg);
            return match handle.get().context_pointer() {
                Some(context) if answer == 0 && is_part(context) => {
                    show_inside(context, visit, arg)
                }
                _ => answer,
            };
        }
        visit(pointer, arg)
    }
}

/// Whether the collector ignores `context`, and only the handle has it.
///
/// # Safety
/// As for `traverse`, with a live object.
#[cfg(not(Py_GIL_DISABLED))]
unsafe fn is_part(context: *mut ffi::PyObject) -> bool {
    // SAFETY: by the contract above.
    unsafe { ffi::PyObject_GC_IsTracked(context) == 0 && collector::is_only_ours(context) }
}

/// # Safety
/// As for `traverse`, with a live object.
#[cfg(not(Py_GIL_DISABLED))]
unsafe fn show_inside(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: by the contract above.
    unsafe {
        match (*ffi::Py_TYPE(object)).tp_traverse {
            Some(inside) => inside(object, visit, arg),
            None => 0,
        }
    }
}

impl Loop {
    /// All handles that wait for their turn or their time.
    fn visit_queued(&self, see: &mut dyn FnMut(&Py<Handle>)) {
        if !self.born {
            return;
        }
        self.ready
            .visit(|ready| ready.iter().filter_map(Item::callback).for_each(&mut *see));
        self.beside.visit(|beside| beside.all().for_each(&mut *see));
        self.timers
            .visit(|timers| timers.iter().for_each(|timer| see(&timer.0)));
    }
}
