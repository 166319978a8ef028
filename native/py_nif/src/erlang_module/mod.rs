//! The native half of Python's package `erlang`.
//!
//! | module | contents |
//! |---|---|
//! | [`calls`] | `erlang.call`, `erlang.cast`, calls of funs |
//! | [`async_calls`] | `erlang.async_call` |
//! | [`target`] | the Erlang function to be called |
//! | [`running_loop`] | the event loop of this thread |
//! | [`messages`] | `erlang.send` |
//! | [`mailbox`], [`channel`] | `_native.Mailbox`, `_native.Channel` |
//! | [`waiting`] | threads that wait for Erlang |

pub mod async_calls;
pub mod calls;
pub mod channel;
pub mod mailbox;
pub mod messages;
pub mod running_loop;
pub mod target;
mod waiting;
