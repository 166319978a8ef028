//! One turn of the loop: timeout, wait, take, run.
//!
//! | module | contents |
//! |---|---|
//! | [`run_once`] | the steps of a turn |
//! | [`wait_steps`] | waiting: poll, spin, wait directly, park |
//! | [`item`] | running one item of the ready queue |
//! | [`priorities`] | microtasks and priorities: what runs after a callback, before the next one |

pub mod item;
pub mod priorities;
pub mod run_once;
pub mod wait_steps;
