//! What Python asked of Erlang and has not got an answer to yet.
//!
//! `question` is its life from asking to the one answer, `server` the process that has them
//! answered (`py_questions`), `chain` who waits for whom when answering needs Python again.
//! `python/erlang_calls.rs` asks.

pub mod chain;
mod question;
pub mod server;

pub use question::{kind_text, Answer, Question, QuestionRef, Terms, Waiter};
