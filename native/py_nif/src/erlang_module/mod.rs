//! The native half of Python's package `erlang`.
//!
//! | module | contents |
//! |---|---|
//! | [`calls`] | `erlang.call`, `erlang.async_call`, `erlang.cast`, calls of funs |
//! | [`messages`] | `erlang.send` |
//! | [`mailbox`] | `_native.Mailbox` |

pub mod calls;
pub mod mailbox;
pub mod messages;
