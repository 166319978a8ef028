//! Types of Python that Erlang does not have. They cross as tagged tuples, in both directions.
//!
//! | module | contents |
//! |---|---|
//! | [`incoming`] | tagged tuples as objects of the standard library |
//! | [`outgoing`] | enums, dataclasses, dates, paths and others as terms |
//! | [`structs`] | structs of Elixir as objects of the standard library |
//! | [`numpy`] | arrays and scalars, both ways |

pub mod incoming;
mod numpy;
pub mod outgoing;
pub mod structs;
