//! What rustix does not offer for an epoll set: to wait to the nanosecond where the kernel can (it
//! calls `epoll_pwait2` always or never), and to watch a descriptor that others own. `crate::epoll`
//! is the only caller.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// What the kernel writes: one entry for each ready descriptor.
#[derive(Default)]
pub(crate) struct Events(pub Vec<Event>);

// SAFETY: an entry carries the token that `crate::epoll` registered, always a number. rustix also
// accepts pointers, which is why its entries stay on their thread.
unsafe impl Send for Events {}

/// Set once the kernel (before 5.11) or a sandbox has rejected `epoll_pwait2`, which will not
/// change. Relaxed: trying once too often is harmless.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

/// Waits until something is ready, at most `timeout_ns` (`None`: forever), and appends as many
/// events to `out` as it has room for. A signal ends the wait with none.
pub(crate) fn wait(
    set: BorrowedFd<'_>,
    out: &mut Vec<Event>,
    timeout_ns: Option<u64>,
) -> Result<()> {
    let precise = timeout_ns.filter(|&ns| ns > 0 && !NO_PWAIT2.load(Ordering::Relaxed));
    let waited = match precise.map(|ns| wait_ns(set, out, ns)) {
        // ENOSYS comes from an old kernel; EPERM from an old sandbox that returns it for every
        // call it does not know. The call itself has no such error.
        Some(Err(Errno::NOSYS | Errno::PERM)) => {
            NO_PWAIT2.store(true, Ordering::Relaxed);
            wait_ms(set, out, timeout_ns)
        }
        Some(waited) => waited,
        None => wait_ms(set, out, timeout_ns),
    };
    match waited {
        Err(Errno::INTR) => Ok(()),
        waited => waited.map_err(Error::from),
    }
}

/// rustix rounds up to milliseconds: a loop must never wake before its deadline and spin on the
/// rest. It would call `epoll_pwait2` for a longer timeout than `epoll_pwait` takes, 24 days.
fn wait_ms(
    set: BorrowedFd<'_>,
    out: &mut Vec<Event>,
    timeout_ns: Option<u64>,
) -> rustix::io::Result<()> {
    const LONGEST_NS: u64 = i32::MAX as u64 * 1_000_000;
    let timeout = timeout_ns.map(|ns| super::time::timespec(ns.min(LONGEST_NS)));
    epoll::wait(set, spare_capacity(out), timeout.as_ref())?;
    Ok(())
}

fn wait_ns(set: BorrowedFd<'_>, out: &mut Vec<Event>, ns: u64) -> rustix::io::Result<()> {
    // The call expects 64 bits for each field on every architecture.
    const { assert!(size_of::<rustix::time::Timespec>() == 16) };
    let timeout = super::time::timespec(ns);
    let room = out.spare_capacity_mut();
    // SAFETY: the kernel writes events into `room`, at most its length, and returns how many;
    // `Event` has the kernel's layout. `timeout` is only read; a null signal mask (with its size)
    // means that the mask is not changed.
    unsafe {
        let count = libc::syscall(
            libc::SYS_epoll_pwait2,
            set.as_raw_fd(),
            room.as_mut_ptr(),
            libc::c_int::try_from(room.len()).unwrap_or(libc::c_int::MAX),
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            size_of::<u64>(),
        );
        let Ok(count) = usize::try_from(count) else {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        };
        out.set_len(out.len() + count);
    }
    Ok(())
}

/// The descriptor behind a number, for one `epoll_ctl`.
pub(crate) fn borrow<'call>(fd: RawFd) -> Result<BorrowedFd<'call>> {
    if fd < 0 {
        return Err(Error::BadFd);
    }
    // SAFETY: not -1. Its owner may have closed it without telling the loop: then `epoll_ctl`, the
    // one use of the result, returns EBADF, or registers the descriptor that has the number now,
    // which `watches` expects.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    type Wait = fn(BorrowedFd<'_>, &mut Vec<Event>, u64) -> rustix::io::Result<()>;
    const WAYS: [Wait; 2] = [wait_ns, |set, out, ns| wait_ms(set, out, Some(ns))];

    #[test]
    fn both_calls_wait_at_least_as_long_as_asked() {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut out = Vec::with_capacity(4);
        for wait in WAYS {
            let before = crate::now_ns();
            match wait(set.as_fd(), &mut out, 1_500_000) {
                Ok(()) => assert!(out.is_empty()),
                Err(Errno::NOSYS) => continue,
                Err(other) => panic!("{other}"),
            }
            assert!(crate::now_ns() - before >= 1_500_000);
        }
    }

    #[test]
    fn a_timeout_of_centuries_is_accepted() {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let ready = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let data = epoll::EventData::new_u64(7);
        epoll::add(&set, &ready, data, epoll::EventFlags::IN).unwrap();
        for wait in WAYS {
            let mut out = Vec::with_capacity(4);
            match wait(set.as_fd(), &mut out, u64::MAX) {
                Err(Errno::NOSYS) => continue,
                outcome => outcome.unwrap(),
            }
            assert_eq!(out.len(), 1);
        }
    }
}
