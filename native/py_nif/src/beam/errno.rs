//! errno values as the atoms that Erlang uses (`file:posix()`, `inet:posix()`).

use rustler::{Encoder, Env, Term};

mod names {
    rustler::atoms! {
        eacces, eaddrinuse, eaddrnotavail, eafnosupport, eagain, econnrefused, econnreset,
        eexist, ehostunreach, einprogress, einval, eisconn, emfile, emsgsize, enetunreach,
        enfile, enobufs, errno, enoent, enomem, enospc, enotconn, enotsock, epipe, etimedout,
    }
}

/// The atom for `code`, or `{errno, Code}` if there is no customary name.
pub fn atom(env: Env<'_>, code: i32) -> Term<'_> {
    let name = match code {
        libc::EACCES => names::eacces(),
        libc::EADDRINUSE => names::eaddrinuse(),
        libc::EADDRNOTAVAIL => names::eaddrnotavail(),
        libc::EAFNOSUPPORT => names::eafnosupport(),
        libc::EAGAIN => names::eagain(),
        libc::ECONNREFUSED => names::econnrefused(),
        libc::ECONNRESET => names::econnreset(),
        libc::EEXIST => names::eexist(),
        libc::EHOSTUNREACH => names::ehostunreach(),
        libc::EINPROGRESS => names::einprogress(),
        libc::EINVAL => names::einval(),
        libc::EISCONN => names::eisconn(),
        libc::EMFILE => names::emfile(),
        libc::EMSGSIZE => names::emsgsize(),
        libc::ENETUNREACH => names::enetunreach(),
        libc::ENFILE => names::enfile(),
        libc::ENOBUFS => names::enobufs(),
        libc::ENOENT => names::enoent(),
        libc::ENOMEM => names::enomem(),
        libc::ENOSPC => names::enospc(),
        libc::ENOTCONN => names::enotconn(),
        libc::ENOTSOCK => names::enotsock(),
        libc::EPIPE => names::epipe(),
        libc::ETIMEDOUT => names::etimedout(),
        other => return (names::errno(), other).encode(env),
    };
    name.encode(env)
}
