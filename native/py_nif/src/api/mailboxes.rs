//! Mailboxes of Python code, for their processes: see `py_actor`.

use rustler::{Encoder, Env, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::mailboxes::MailboxRef;

#[rustler::nif]
fn mailbox_new(env: Env<'_>) -> Term<'_> {
    Ref::new(MailboxRef(std::sync::Arc::default())).encode(env)
}

/// The mailbox belongs to the calling process from now on; Python is notified of its end.
#[rustler::nif]
fn mailbox_opened<'a>(env: Env<'a>, mailbox: Ref<MailboxRef>) -> Term<'a> {
    mailbox.0.opened(env.pid());
    // It is the calling process, so it is alive.
    let _ = mailbox.monitor(Sender::Scheduler(env), &env.pid());
    atoms::ok().encode(env)
}

#[rustler::nif]
fn mailbox_deliver<'a>(env: Env<'a>, mailbox: Ref<MailboxRef>, message: Term<'a>) -> Term<'a> {
    mailbox.0.deliver(message);
    atoms::ok().encode(env)
}

/// Whether Python asked to be notified of the death of this linked process.
#[rustler::nif]
fn mailbox_exit(mailbox: Ref<MailboxRef>, pid: Term<'_>, reason: Term<'_>) -> bool {
    mailbox.0.exit(pid, reason)
}
