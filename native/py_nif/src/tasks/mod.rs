//! What Erlang asked of Python and has not got an answer to yet.
//!
//! `request` is what to do, `function` the function it names, `task` its life from the question
//! to the one answer, `reports` how Erlang's log hears of work that nobody waits for any more.

mod function;
pub mod reports;
mod request;
mod task;

pub use function::Function;
pub use request::{Request, What};
pub use task::{Asker, Next, Place, Task};
