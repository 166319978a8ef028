//! One turn of the loop: timeout, wait, take, run.
//!
//! | module | contents |
//! |---|---|
//! | [`turn`] | the steps of a turn |
//! | [`waiting`] | waiting: poll, spin, wait directly, park |
//! | [`between`] | microtasks and priorities, between two callbacks |

pub mod between;
pub mod turn;
pub mod waiting;
