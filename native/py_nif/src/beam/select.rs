//! The VM's poller. The only place that calls `enif_select`.
//!
//! Call these on scheduler threads only (a NIF run by a process, a resource callback): from OTP
//! 28 on, re-arming from any other thread reads a null pointer inside the VM.
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use rustler::sys;
use rustler::{Env, LocalPid};

use super::resource::{Ref, Resource};

/// Requests one message `{select, Object, undefined, ready_input}` to `pid` when `fd` becomes
/// readable. The VM keeps the object alive until [`stop`].
pub fn arm<T: Resource>(env: Env<'_>, fd: RawFd, object: &Ref<T>, pid: &LocalPid) -> bool {
    let undefined = crate::atoms::undefined();
    // SAFETY: `fd` is owned by the value inside `object` and stays open while the VM has the
    // object selected; the reference argument may be an atom, `undefined`, by the VM's contract.
    let flags = unsafe {
        sys::enif_select(
            env.as_c_arg(),
            fd,
            sys::ERL_NIF_SELECT_READ,
            object.as_object(),
            pid.as_c_arg(),
            undefined.as_c_arg(),
        )
    };
    flags >= 0
}

/// Cancels what [`arm`] requested. `false`: the message has been sent already.
pub fn cancel<T: Resource>(env: Env<'_>, fd: RawFd, object: &Ref<T>) -> bool {
    /// rustler lacks it.
    const ERL_NIF_SELECT_CANCEL: sys::ErlNifSelectFlags = 1 << 3;
    let undefined = crate::atoms::undefined();
    // SAFETY: as in `arm`.
    let flags = unsafe {
        sys::enif_select(
            env.as_c_arg(),
            fd,
            sys::ERL_NIF_SELECT_READ | ERL_NIF_SELECT_CANCEL,
            object.as_object(),
            std::ptr::null(),
            undefined.as_c_arg(),
        )
    };
    flags >= 0 && flags & sys::ERL_NIF_SELECT_READ_CANCELLED != 0
}

/// Removes `fd` from the poller. The VM drops its reference to the object afterwards, at once or as
/// soon as none of its threads polls the fd.
pub fn stop<T: Resource>(env: Env<'_>, fd: RawFd, object: &Ref<T>) {
    let undefined = crate::atoms::undefined();
    // SAFETY: as in `arm`; STOP is allowed for an fd that was never selected.
    unsafe {
        sys::enif_select(
            env.as_c_arg(),
            fd,
            sys::ERL_NIF_SELECT_STOP,
            object.as_object(),
            std::ptr::null(),
            undefined.as_c_arg(),
        )
    };
}
