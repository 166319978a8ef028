//! Calls from Python to Erlang that have no reply yet.
//!
//! | module | contents |
//! |---|---|
//! | `question` | the life of a question, from the call to its one reply |
//! | [`server`] | the process that has questions run (`py_questions`) |
//! | [`chain`] | which question waits for which, when Erlang calls Python again |
//!
//! `erlang_module` creates questions.

pub mod chain;
mod question;
pub mod server;

pub use question::{Question, QuestionRef, Reply, Waiter, kind_text};
