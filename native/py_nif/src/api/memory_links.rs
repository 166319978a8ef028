//! Large data between a node and its peer: `py_peer_memory`.

use std::io;

use rustler::{Binary, Encoder, Env, OwnedBinary, Term};

use crate::atoms;
use crate::beam::errno;
use crate::beam::resource::Ref;
use crate::beam::sealed_memory::{self, SealedMemory};
use crate::requests::memory_link::{MemoryLink, MemoryListener, Share};

fn result<'a, T: Encoder>(env: Env<'a>, result: io::Result<T>) -> Term<'a> {
    match result {
        Ok(value) => (atoms::ok(), value).encode(env),
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(libc::EINVAL);
            (atoms::error(), errno::atom(env, code)).encode(env)
        }
    }
}

#[rustler::nif]
fn memory_listen<'a>(env: Env<'a>, name: Binary<'a>) -> Term<'a> {
    result(env, MemoryListener::new(&name).map(Ref::new))
}

#[rustler::nif]
fn memory_accept<'a>(env: Env<'a>, listener: Ref<MemoryListener>, secret: Binary<'a>) -> Term<'a> {
    result(env, listener.accept(&secret).map(Ref::new))
}

#[rustler::nif]
fn memory_connect<'a>(env: Env<'a>, name: Binary<'a>, secret: Binary<'a>) -> Term<'a> {
    result(env, MemoryLink::connect(&name, &secret).map(Ref::new))
}

#[rustler::nif]
fn memory_close(env: Env<'_>, link: Ref<MemoryLink>) -> Term<'_> {
    link.close();
    atoms::ok().encode(env)
}

/// May copy.
#[rustler::nif(schedule = "DirtyCpu")]
fn memory_share<'a>(env: Env<'a>, binary: Binary<'a>) -> Term<'a> {
    result(env, Share::new(&binary).map(Ref::new))
}

#[rustler::nif]
fn memory_send(env: Env<'_>, link: Ref<MemoryLink>, share: Ref<Share>) -> Term<'_> {
    result(env, link.send(&share))
}

/// Copies if there is no room for a mapping.
#[rustler::nif(schedule = "DirtyCpu")]
fn memory_take(env: Env<'_>, link: Ref<MemoryLink>, number: u64) -> Term<'_> {
    let taken = link.take(number, |part, keep| match SealedMemory::map(part, keep) {
        Ok(memory) => Ok(memory.into_binary(env)),
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => copied(env, part),
        Err(error) => Err(error),
    });
    result(env, taken)
}

fn copied<'a>(env: Env<'a>, part: &sealed_memory::Part) -> io::Result<Term<'a>> {
    // The VM would end if there were no memory for a binary.
    Vec::<u8>::new()
        .try_reserve_exact(part.size)
        .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    let mut binary = OwnedBinary::new(part.size);
    sealed_memory::read(part, binary.as_mut_slice())?;
    Ok(binary.release(env).encode(env))
}

/// `{Binaries, Bytes}` each: sent, those copied for it, received.
#[rustler::nif]
fn memory_counts(link: Ref<MemoryLink>) -> ((u64, u64), (u64, u64), (u64, u64)) {
    let counts = &link.counts;
    let (sent, copied) = (counts.sent.get(), counts.copied.get());
    (sent, copied, counts.received.get())
}
