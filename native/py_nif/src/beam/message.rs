//! Messages to Erlang processes, from scheduler threads and from threads of our own.

#![allow(unsafe_code)] // one call that rustler has for scheduler threads only

use std::mem::MaybeUninit;
use std::ptr;

use rustler::{sys, Atom, Encoder, Env, LocalPid};

use super::forked;
use super::own_env::OwnEnv;

/// Where a message is sent from. The VM wants to know: on a scheduler thread the sender is named
/// by its environment, on any other thread there is none.
#[derive(Clone, Copy)]
pub enum Sender<'a> {
    /// In a NIF or a resource callback, on a scheduler thread.
    Scheduler(Env<'a>),
    /// On a thread of ours (Python's main thread, a runner, any Python thread).
    Thread,
}

/// Sends `message`; `false` if nobody is there to receive it.
pub fn send(sender: Sender<'_>, to: &LocalPid, message: impl Encoder) -> bool {
    if forked::is_copy() {
        return false;
    }
    match sender {
        Sender::Scheduler(env) => env.send(to, message).is_ok(),
        Sender::Thread => {
            let env = OwnEnv::new();
            let message = env.keep(message);
            env.send(to, message)
        }
    }
}

/// The process that has this name. On a thread of ours.
pub fn whereis(name: Atom) -> Option<LocalPid> {
    if forked::is_copy() {
        return None;
    }
    let mut pid = MaybeUninit::uninit();
    OwnEnv::new().with(|env| {
        let name = name.to_term(env).as_c_arg();
        // SAFETY: without an environment the VM takes the caller for a thread of ours, which it
        // is; `pid` is initialised when it answers non-zero.
        unsafe {
            let found = sys::enif_whereis_pid(ptr::null_mut(), name, pid.as_mut_ptr());
            (found != 0).then(|| LocalPid::from_c_arg(pid.assume_init()))
        }
    })
}

/// Whether the process is there, for a thread of ours.
pub fn is_alive(pid: &LocalPid) -> bool {
    // SAFETY: no environment on a thread that is none of the VM's; the call only reads the pid.
    forked::is_copy()
        || unsafe { rustler::sys::enif_is_process_alive(std::ptr::null_mut(), pid.as_c_arg()) == 1 }
}
