//! Signals as Erlang names them, and what they do at the moment.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use rustler::Atom;

use crate::atoms;

/// Those that some OTP release takes in `os:set_signal/2`; an older one refuses the newer names.
/// SIGINT is here for the day it does: so far the VM keeps it.
pub const NAMES: [(i32, fn() -> Atom); 12] = [
    (libc::SIGABRT, atoms::sigabrt),
    (libc::SIGALRM, atoms::sigalrm),
    (libc::SIGCHLD, atoms::sigchld),
    (libc::SIGCONT, atoms::sigcont),
    (libc::SIGHUP, atoms::sighup),
    (libc::SIGINT, atoms::sigint),
    (libc::SIGQUIT, atoms::sigquit),
    (libc::SIGTERM, atoms::sigterm),
    (libc::SIGTSTP, atoms::sigtstp),
    (libc::SIGUSR1, atoms::sigusr1),
    (libc::SIGUSR2, atoms::sigusr2),
    (libc::SIGWINCH, atoms::sigwinch),
];

/// As `os:set_signal/2` calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    Default = 1,
    Ignore = 2,
    Handle = 3,
}

impl Disposition {
    pub fn name(self) -> Atom {
        match self {
            Disposition::Default => atoms::default(),
            Disposition::Ignore => atoms::ignore(),
            Disposition::Handle => atoms::handle(),
        }
    }
}

/// What the process does on signal `number` now. OTP can set this but not tell it.
pub fn disposition(number: i32) -> Disposition {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only; the answer is written to `action`, which zeroes are valid for too.
    let handler = unsafe {
        libc::sigaction(number, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    };
    match handler {
        libc::SIG_DFL => Disposition::Default,
        libc::SIG_IGN => Disposition::Ignore,
        _ => Disposition::Handle,
    }
}
