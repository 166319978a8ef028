//! What an origin knows of the requests to a peer: `py_remote`, `py_peer_agent`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustler::{Binary, Encoder, Env, Term};

use crate::atoms;
use crate::beam::errno;
use crate::beam::resource::Ref;
use crate::beam::signal;
use crate::requests::ledger::Ledger;

#[rustler::nif]
fn end_with_parent(env: Env<'_>) -> Term<'_> {
    signal::end_with_parent();
    atoms::ok().encode(env)
}

/// With the fd that the other process opens in `/proc`.
#[rustler::nif]
fn ledger_create(env: Env<'_>) -> Term<'_> {
    match Ledger::create() {
        Ok(ledger) => {
            let fd = ledger.fd();
            (atoms::ok(), Ref::new(ledger), fd).encode(env)
        }
        Err(error) => failed(env, &error),
    }
}

#[rustler::nif]
fn ledger_open<'a>(env: Env<'a>, path: Binary<'a>) -> Term<'a> {
    match Ledger::open(Path::new(OsStr::from_bytes(&path))) {
        Ok(ledger) => (atoms::ok(), Ref::new(ledger)).encode(env),
        Err(error) => failed(env, &error),
    }
}

fn failed<'a>(env: Env<'a>, error: &io::Error) -> Term<'a> {
    let code = error.raw_os_error().unwrap_or(libc::EINVAL);
    (atoms::error(), errno::atom(env, code)).encode(env)
}

#[rustler::nif]
fn ledger_next(ledger: Ref<Ledger>) -> u64 {
    ledger.next()
}

#[rustler::nif]
fn ledger_ended<'a>(env: Env<'a>, ledger: Ref<Ledger>) -> Term<'a> {
    ledger.count_ended();
    atoms::ok().encode(env)
}

#[rustler::nif]
fn ledger_load(ledger: Ref<Ledger>) -> u64 {
    ledger.load()
}

#[rustler::nif]
fn ledger_has_begun(ledger: Ref<Ledger>, number: u64) -> bool {
    ledger.has_begun(number)
}
