//! The functions that Erlang calls, by subject. Every function decodes, makes one call down and
//! encodes; documentation and types are in `erl_src/py_nif.erl`.
//!
//! | module | contents |
//! |---|---|
//! | `event_loops`, `fds`, `timers`, `pending` | loops driven from Erlang |
//! | `routing` | what a keeper does for its loops |
//! | `python` | the interpreter and its main thread |
//! | `python_loops` | loops that Erlang starts and Python runs |
//! | `requests`, `questions` | requests to Python, questions from Python |
//! | `ledgers` | the requests of another process |
//! | `memory_links` | large data from and to another process |
//! | `mailboxes`, `channels` | messages and items to Python |
//! | `objects` | Python objects that Erlang has by reference |
//! | `output`, `signals`, `watchdog` | output and logs, signals, stuck loops |
//! | `status` | what runs now |
//! | `inspect`, `profile` | what is going on, and what went on: for `py_inspect` and `py_recorder` |
//! | `test_sockets` | pipes and sockets for tests |
//!
//! Wrong types raise `badarg` (the decoders do that); failure returns `{error, Reason}`.

mod channels;
mod event_loops;
mod fds;
mod inspect;
mod ledgers;
mod mailboxes;
mod memory_links;
mod objects;
mod output;
mod pending;
mod profile;
mod python;
mod python_loops;
mod questions;
mod requests;
mod routing;
mod signals;
mod status;
mod test_sockets;
mod timers;
mod watchdog;
