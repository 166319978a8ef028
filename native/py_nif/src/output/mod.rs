//! What Python prints and logs, on its way to Erlang processes.
//!
//! Text goes to the group leader of whoever asked for the code that prints it (`origin`), or of
//! the process that owns the loop it runs on, or to `user`. `lines` keeps what a thread has not
//! ended with a newline yet; `device` is a process that takes text, and how much
//! of it may be under way. Log events go to `py_logger`: `events`.
//!
//! Nothing here knows Python: `python/output.rs` is the side that does.

pub mod device;
pub mod events;
pub mod lines;
mod origin;

pub use origin::{Origin, Target};
