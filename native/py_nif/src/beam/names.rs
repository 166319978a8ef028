//! Registered processes.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use rustler::{sys, Atom, LocalPid};

/// The process of this name, for threads of ours: not on a scheduler thread.
pub fn whereis(name: Atom) -> Option<LocalPid> {
    let mut pid = MaybeUninit::uninit();
    // SAFETY: without an environment, as the VM asks of threads that are not its own; `pid` is
    // written when it answers non-zero.
    unsafe {
        let found = sys::enif_whereis_pid(ptr::null_mut(), name.as_c_arg(), pid.as_mut_ptr());
        (found != 0).then(|| LocalPid::from_c_arg(pid.assume_init()))
    }
}
