//! Messages from Erlang processes to Python code: see `mailbox`.

mod mailbox;

pub use mailbox::{Mailbox, MailboxRef};
