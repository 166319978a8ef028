//! What Erlang asked of Python and has not got an answer to yet.
//!
//! `request` is what to do, `function` the function it names, `plain` the simplest arguments, `task` its life from the question
//! to the one answer, `reports` how Erlang's log hears of work that nobody waits for any more.

mod function;
mod plain;
pub mod reports;
mod request;
mod task;

pub use function::{Function, FunctionRef};
pub use plain::{Plain, PlainArguments};
pub use request::{Given, Name, Request, What};
pub use task::{Asker, Next, Place, Task};
