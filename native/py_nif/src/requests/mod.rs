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
//! | [`loop_requests`], [`unmonitored`] | the requests of a loop; those whose callers are not monitored yet |
//! | [`on_loop`] | coroutines: requests on a loop's thread |
//! | [`loop_streams`], [`plain_streams`] | streams of asynchronous and of plain generators |
//! | [`ledger`] | which requests of another process have begun |
//! | [`call_mailbox`] | ending the mailbox of a call |
//! | [`reports`] | reports to `py_calls`, for the log |

pub mod call;
pub mod call_mailbox;
pub mod call_threads;
pub mod calls;
pub mod function;
pub mod ledger;
pub mod loop_requests;
pub mod loop_streams;
pub mod method;
pub mod on_loop;
pub mod options;
pub mod plain_streams;
pub mod reports;
pub mod request;
pub mod snippet;
pub mod unmonitored;
