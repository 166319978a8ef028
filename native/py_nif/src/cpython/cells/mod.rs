//! Fields of Python objects that Rust changes while it has the GIL.
//!
//! | module | contents |
//! |---|---|
//! | [`gil_cell`] | any state, accessed in closures |
//! | [`gil_slot`] | one value that is moved in and out |
//! | [`gil_value`] | one small value that is copied in and out |
//! | `thread_lock` | what replaces the GIL in builds without one |

pub mod gil_cell;
pub mod gil_slot;
pub mod gil_value;
#[cfg(Py_GIL_DISABLED)]
pub mod thread_lock;
