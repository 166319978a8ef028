//! Registered processes.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use rustler::{Atom, LocalPid, sys};

use super::forked;

/// The process registered under this name; none in a forked copy of the node. Not for scheduler
/// threads.
pub fn whereis(name: Atom) -> Option<LocalPid> {
    if forked::is_copy() {
        return None;
    }
    let mut pid = MaybeUninit::uninit();
    // SAFETY: without an environment, as the VM requires on other threads than its own; `pid` is
    // initialised when the call returns non-zero.
    unsafe {
        let found = sys::enif_whereis_pid(ptr::null_mut(), name.as_c_arg(), pid.as_mut_ptr());
        (found != 0).then(|| LocalPid::from_c_arg(pid.assume_init()))
    }
}
