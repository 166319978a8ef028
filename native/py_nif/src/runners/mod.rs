//! Which thread runs which loop, for loops that Erlang starts.
//!
//! | module | contents |
//! |---|---|
//! | [`start`] | what such a loop begins with; the default loop |
//! | [`placement`] | assigning a loop to a runner |
//! | [`runner`] | what a runner's thread does |
//! | [`carried`] | one loop on its runner |

pub mod carried;
pub mod placement;
pub mod runner;
pub mod start;
