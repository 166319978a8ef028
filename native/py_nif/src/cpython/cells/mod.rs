//! Fields of Python objects that Rust changes while it has the GIL.
//!
//! | module | contents |
//! |---|---|
//! | [`gil_cell`] | any state, accessed in closures, as in a `RefCell` |
//! | [`gil_slot`] | a value that is moved or copied in and out, as in a `Cell` |
//! | `thread_lock` | what replaces the GIL in builds without one |

pub mod gil_cell;
pub mod gil_slot;
#[cfg(Py_GIL_DISABLED)]
pub mod thread_lock;
