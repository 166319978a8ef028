//! The epoll calls. `crate::epoll` is the only caller.

use super::{check, last_error};
use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// What the kernel writes for each ready descriptor.
pub type EpollEvent = libc::epoll_event;

/// Set once the kernel (before 5.11) or a sandbox has rejected `epoll_pwait2`, which will not
/// change. Relaxed: trying once too often is harmless.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

/// The kernel's own timespec: 64 bits on every architecture, unlike libc's.
#[repr(C)]
struct KernelTimespec {
    sec: i64,
    nsec: i64,
}

/// A new, empty set, close-on-exec.
pub(crate) fn create() -> Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the kernel just returned this number; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `op` is `EPOLL_CTL_ADD`, `_MOD` or `_DEL`; `fd` may be any number, the kernel checks it.
pub(crate) fn control(
    set: BorrowedFd<'_>,
    op: libc::c_int,
    fd: RawFd,
    events: u32,
    token: u64,
) -> Result<()> {
    let mut event = EpollEvent { events, u64: token };
    // SAFETY: `event` is valid for the call and the kernel copies it. A wrong `fd` causes an error,
    // it is never dereferenced.
    check(unsafe { libc::epoll_ctl(set.as_raw_fd(), op, fd, &raw mut event) }).map(|_| ())
}

/// Waits until something is ready, at most `timeout_ns` (`None`: forever), and returns how many
/// entries of `out` were written. A signal ends the wait with 0.
pub(crate) fn wait(
    set: BorrowedFd<'_>,
    out: &mut [EpollEvent],
    timeout_ns: Option<u64>,
) -> Result<usize> {
    let answer = match timeout_ns {
        Some(0) => wait_ms(set, out, 0),
        None => wait_ms(set, out, -1),
        Some(ns) if NO_PWAIT2.load(Ordering::Relaxed) => wait_ms(set, out, round_up_to_ms(ns)),
        Some(ns) => match wait_ns(set, out, ns) {
            // ENOSYS comes from an old kernel; EPERM (NotPollable here) from an old sandbox that
            // returns it for every call it does not know. The call itself has no such error.
            Err(Error::Os(libc::ENOSYS) | Error::NotPollable) => {
                NO_PWAIT2.store(true, Ordering::Relaxed);
                wait_ms(set, out, round_up_to_ms(ns))
            }
            answer => answer,
        },
    };
    match answer {
        Err(Error::Os(libc::EINTR)) => Ok(0),
        answer => answer,
    }
}

/// Rounded up: a loop must never wake before its deadline and spin on the rest.
fn round_up_to_ms(ns: u64) -> libc::c_int {
    libc::c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
}

fn capacity(out: &[EpollEvent]) -> libc::c_int {
    libc::c_int::try_from(out.len()).unwrap_or(libc::c_int::MAX)
}

fn count(answer: impl TryInto<usize>) -> Result<usize> {
    answer.try_into().map_err(|_| last_error())
}

fn wait_ms(set: BorrowedFd<'_>, out: &mut [EpollEvent], ms: libc::c_int) -> Result<usize> {
    // SAFETY: `out` is ours during the call, and the kernel writes at most its length.
    count(unsafe { libc::epoll_wait(set.as_raw_fd(), out.as_mut_ptr(), capacity(out), ms) })
}

fn wait_ns(set: BorrowedFd<'_>, out: &mut [EpollEvent], ns: u64) -> Result<usize> {
    const NS: u64 = super::time::NS_PER_SEC;
    let timeout = KernelTimespec {
        sec: (ns / NS).cast_signed(), // below 2^63: divided by a billion
        nsec: (ns % NS).cast_signed(),
    };
    // SAFETY: as above; `timeout` is only read and has the layout that this call requires; a null
    // signal mask (with its size) means that the mask is not changed.
    count(unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set.as_raw_fd(),
            out.as_mut_ptr(),
            capacity(out),
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            std::mem::size_of::<u64>(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn milliseconds_never_end_early() {
        assert_eq!(round_up_to_ms(1), 1);
        assert_eq!(round_up_to_ms(1_000_000), 1);
        assert_eq!(round_up_to_ms(1_000_001), 2);
        assert_eq!(round_up_to_ms(u64::MAX), libc::c_int::MAX);
    }

    #[test]
    fn both_calls_wait_at_least_as_long_as_asked() {
        let set = create().unwrap();
        let mut out = [EpollEvent { events: 0, u64: 0 }; 4];
        for wait in [
            |s: BorrowedFd<'_>, o: &mut [EpollEvent]| wait_ns(s, o, 2_000_000),
            |s: BorrowedFd<'_>, o: &mut [EpollEvent]| wait_ms(s, o, round_up_to_ms(2_000_000)),
        ] {
            let before = crate::now_ns();
            match wait(set.as_fd(), &mut out) {
                Ok(n) => assert_eq!(n, 0),
                Err(Error::Os(libc::ENOSYS)) => continue,
                Err(other) => panic!("{other}"),
            }
            assert!(crate::now_ns() - before >= 2_000_000);
        }
    }
}
