//! Messages from Erlang processes to Python code.
//!
//! | module | contents |
//! |---|---|
//! | [`mailbox`] | the messages sent to a pid |
//! | [`channel`] | items of which a limited number waits |

pub mod channel;
mod mailbox;

pub use channel::Channel;
pub use mailbox::{Mailbox, MailboxRef};
