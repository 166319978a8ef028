//! The Python stack of another thread while that thread runs, without the GIL and without stopping
//! it: for profiles and for the flight recorder.
//!
//! The thread changes its frames while they are read. So nothing here dereferences a pointer into
//! them: memory is read by a system call that fails where there is none ([`memory`]), each object is
//! recognised by its class before it is used, and a stack that changed meanwhile is read again or
//! counted as missed ([`stack`]). Where CPython keeps what, is measured once at the start on frames that
//! are known, and checked ([`layout`]): nothing depends on a version of Python.
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | reads memory that may be gone |
//! | [`layout`] | where CPython keeps frames, code objects and strings |
//! | [`stack`] | reads a stack |
//! | [`lines`] | the line of an instruction |

pub mod layout;
mod lines;
mod memory;
pub mod stack;

pub use stack::{Frame, PythonThread, Sampler};
