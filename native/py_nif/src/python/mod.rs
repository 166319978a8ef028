//! CPython inside the VM.
//!
//! `interpreter` starts it, once; `main_thread` is Python's main thread, where programs run.

mod interpreter;
pub mod main_thread;
mod module;

pub use interpreter::Settings;
