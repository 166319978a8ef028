//! Frees handles that hold each other without overflowing the stack: a handle whose argument is a
//! handle, whose argument is a handle, and so on. Each would be freed inside the one before.
//! CPython has the same problem with its containers, and solves it in the same way ("trashcan").
//!
//! Called when a handle dies whose callback never ran (`Handle::drop`).

use std::cell::{Cell, RefCell};

use super::handle::Call;

/// How many are freed inside each other, as CPython does with its containers.
const DEEPEST: u32 = 50;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// What is freed when the outermost handle has been.
    static DEFERRED: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// Frees `call`, now or when the handles around it are freed.
pub fn free(call: Call) {
    let depth = DEPTH.get();
    if depth == DEEPEST {
        return DEFERRED.with_borrow_mut(|deferred| deferred.push(call));
    }
    DEPTH.set(depth + 1);
    drop(call);
    if depth == 0 {
        while let Some(next) = DEFERRED.with_borrow_mut(Vec::pop) {
            drop(next);
        }
    }
    DEPTH.set(depth);
}
