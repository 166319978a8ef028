//! Which thread runs which loop, for loops that Erlang starts.
//!
//! | module | contents |
//! |---|---|
//! | [`start`] | what such a loop begins with |
//! | [`placement`] | assigning a loop to a runner |
//! | [`runner`] | what a runner's thread does |
//! | [`served_loop`] | one loop on its runner |

pub mod placement;
pub mod runner;
pub mod served_loop;
pub mod start;
