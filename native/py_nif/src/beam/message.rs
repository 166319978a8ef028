//! Messages to Erlang processes, from scheduler threads and from our own threads.

#![allow(unsafe_code)] // one call that rustler has for scheduler threads only

use rustler::{Encoder, Env, LocalPid};

use super::forked;
use super::own_env::OwnEnv;

/// Where a message is sent from. On a scheduler thread the VM needs the environment of the sender;
/// on any other thread there is none.
#[derive(Clone, Copy)]
pub enum Sender<'a> {
    /// In a NIF or a resource callback, on a scheduler thread.
    Scheduler(Env<'a>),
    /// On one of our threads (Python's main thread, a runner, any Python thread).
    Thread,
}

/// Sends `message`. Returns `false` if the process does not exist.
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

/// Whether the process is alive. Not for scheduler threads.
pub fn is_alive(pid: &LocalPid) -> bool {
    // SAFETY: no environment, as the VM requires on other threads than its own; the call only reads
    // the pid.
    forked::is_copy()
        || unsafe { rustler::sys::enif_is_process_alive(std::ptr::null_mut(), pid.as_c_arg()) == 1 }
}
