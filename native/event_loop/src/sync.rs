//! The atomics of `inbox` and `parking`: the standard ones, or loom's when the model checker
//! runs. Those two files are checked as they are; only this switch differs.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
