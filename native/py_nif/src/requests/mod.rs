//! Erlang asks Python: from the request to its one reply.
//!
//! | module | contents |
//! |---|---|
//! | [`request`] | the life of a request, as the resource that Erlang holds |
//! | [`call`] | what a request runs: a function or code, with its arguments |
//! | [`options`] | how its caller wants it run, and its result |
//! | [`function`] | functions by name |
//! | [`method`] | methods of objects that Erlang has by reference |
//! | [`snippet`] | code that arrives as text |
//! | [`call_threads`] | the threads that run plain functions |
//! | [`calls`] | finding the function, converting, calling, replying |
//! | [`on_loop`] | a loop's requests, streams of asynchronous generators, coroutines on its thread |
//! | [`plain_streams`] | streams of plain generators |
//! | [`ledger`] | which requests of another process have begun |
//! | [`memory_link`] | large data from and to another process |
//! | [`call_mailbox`] | ending the mailbox of a call |
//! | [`functions`], [`profile`] | how long functions took; where threads spend their time |
//! | [`reports`] | reports to `py_calls`, for the log |

pub mod call;
pub mod call_mailbox;
pub mod call_threads;
pub mod calls;
pub mod function;
pub mod functions;
pub mod ledger;
pub mod memory_link;
pub mod method;
pub mod on_loop;
pub mod options;
pub mod plain_streams;
pub mod profile;
pub mod reports;
pub mod request;
pub mod snippet;
