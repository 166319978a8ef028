//! Channels, for `py_channel`.

use rustler::{Atom, Binary, Encoder, Env, LocalPid, NifResult, Term};

use crate::atoms;
use crate::beam::message::Sender;
use crate::beam::resource::Ref;
use crate::beam::terms::KeptTerm;
use crate::mailboxes::Channel;
use crate::mailboxes::channel::{End, Kind, Sent};

#[rustler::nif]
fn channel_new<'a>(env: Env<'a>, kind: Atom, limit: usize, owner: LocalPid) -> NifResult<Term<'a>> {
    let kind = match kind {
        kind if kind == atoms::terms() => Kind::Terms,
        kind if kind == atoms::bytes() => Kind::Bytes,
        _ => return Err(rustler::Error::BadArg),
    };
    if limit == 0 {
        return Err(rustler::Error::BadArg);
    }
    Ok(match Channel::open(env, kind, limit, owner) {
        Some(channel) => (atoms::ok(), channel).encode(env),
        None => (atoms::error(), atoms::not_alive()).encode(env),
    })
}

/// `token` is a reference, or `undefined` for a sender that does not wait.
#[rustler::nif]
fn channel_send<'a>(
    env: Env<'a>,
    channel: Ref<Channel>,
    item: Term<'a>,
    token: Term<'a>,
) -> NifResult<Term<'a>> {
    let token = match token.is_ref() {
        true => Some(token),
        false if token == atoms::undefined().to_term(env) => None,
        false => return Err(rustler::Error::BadArg),
    };
    let size = match channel.kind {
        Kind::Terms => 1,
        Kind::Bytes => match Binary::from_term(item) {
            // Python reads an empty piece as the end.
            Ok(binary) if binary.is_empty() => return Ok(atoms::ok().encode(env)),
            Ok(binary) => binary.len(),
            Err(_) => return Ok(atoms::not_binary().encode(env)),
        },
    };
    Ok(match channel.send(env, item, size, token) {
        Sent::Now => atoms::ok().encode(env),
        Sent::Full => atoms::full().encode(env),
        Sent::Later => atoms::wait().encode(env),
        Sent::Refused(end) => end.refusal(env),
    })
}

/// Whether no message with this token will come.
#[rustler::nif]
fn channel_stop_waiting<'a>(channel: Ref<Channel>, token: Term<'a>) -> NifResult<bool> {
    if !token.is_ref() {
        return Err(rustler::Error::BadArg);
    }
    Ok(channel.stop_waiting(token))
}

#[rustler::nif]
fn channel_close<'a>(env: Env<'a>, channel: Ref<Channel>) -> Atom {
    channel.end(Sender::Scheduler(env), End::Closed);
    atoms::ok()
}

#[rustler::nif]
fn channel_fail<'a>(env: Env<'a>, channel: Ref<Channel>, reason: Term<'a>) -> Atom {
    let reason = std::sync::Arc::new(KeptTerm::new(reason));
    channel.end(Sender::Scheduler(env), End::Failed(reason));
    atoms::ok()
}

/// `{Type, Limit, Used, Waiting, IsOpen}`
#[rustler::nif]
fn channel_info(env: Env<'_>, channel: Ref<Channel>) -> Term<'_> {
    let kind = match channel.kind {
        Kind::Terms => atoms::terms(),
        Kind::Bytes => atoms::bytes(),
    };
    let (used, waiting) = channel.load();
    (kind, channel.limit, used, waiting, channel.is_open()).encode(env)
}
