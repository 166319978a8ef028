//! The atomics of `inbox`, `parking` and `vigil`: the standard ones, or loom's when the model
//! checker runs. Those files are checked as they are; only this switch differs.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    fence, AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering,
};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    fence, AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering,
};
