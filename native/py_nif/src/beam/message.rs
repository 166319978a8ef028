//! Messages to Erlang processes, from scheduler threads and from threads of our own.

use rustler::{Encoder, Env, LocalPid, OwnedEnv};

use super::forked;

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
        Sender::Thread => OwnedEnv::new()
            .send_and_clear(to, |env| message.encode(env))
            .is_ok(),
    }
}
