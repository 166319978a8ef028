//! What Erlang may call, by subject. Every function decodes, makes one call down and encodes;
//! documentation and types are in `erl_src/py_nif.erl`.
//!
//! Wrong types raise `badarg` (the decoders do that); failure answers `{error, Reason}`.

mod event_loops;
mod fds;
mod mailboxes;
mod output;
mod pending;
mod python;
mod python_loops;
mod questions;
mod routing;
mod signals;
mod tasks;
mod test_sockets;
mod timers;
mod watchdog;
