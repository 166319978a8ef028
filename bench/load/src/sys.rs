//! The system calls that std lacks: epoll, the CPU clocks of processes, the limit on fds.
#![allow(unsafe_code)]

use crate::Failure;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Something in the set is ready; `token` is what it was added with.
#[derive(Clone, Copy)]
pub struct Event {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
}

/// A level-triggered epoll set.
pub struct Epoll {
    set: OwnedFd,
    buffer: Vec<libc::epoll_event>,
}

impl Epoll {
    pub fn new() -> Result<Self, Failure> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(failed("epoll_create1"));
        }
        Ok(Self {
            // SAFETY: the kernel just gave us this fd.
            set: unsafe { OwnedFd::from_raw_fd(fd) },
            buffer: vec![libc::epoll_event { events: 0, u64: 0 }; 512],
        })
    }

    pub fn add(&self, fd: RawFd, token: u64) -> Result<(), Failure> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, false)
    }

    /// Whether to watch for writing, too.
    pub fn watch_writing(&self, fd: RawFd, token: u64, writing: bool) -> Result<(), Failure> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, writing)
    }

    fn control(&self, op: i32, fd: RawFd, token: u64, writing: bool) -> Result<(), Failure> {
        let out = if writing { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | out).cast_unsigned(),
            u64: token,
        };
        // SAFETY: `event` is valid for the call; the kernel checks the fd.
        if unsafe { libc::epoll_ctl(self.set.as_raw_fd(), op, fd, &raw mut event) } < 0 {
            return Err(failed("epoll_ctl"));
        }
        Ok(())
    }

    /// Waits, and puts what is ready into `out`; nothing if the time ran out.
    pub fn wait(&mut self, out: &mut Vec<Event>, timeout: Duration) -> Result<(), Failure> {
        out.clear();
        let room = i32::try_from(self.buffer.len()).unwrap_or(i32::MAX);
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes at most `room` entries.
        let count =
            unsafe { libc::epoll_wait(self.set.as_raw_fd(), self.buffer.as_mut_ptr(), room, ms) };
        let Ok(count) = usize::try_from(count) else {
            return Err(failed("epoll_wait"));
        };
        out.extend(self.buffer[..count].iter().map(|event| {
            let bits = event.events.cast_signed();
            Event {
                token: event.u64,
                // Errors and hang-ups are seen by reading.
                readable: bits & !libc::EPOLLOUT != 0,
                writable: bits & libc::EPOLLOUT != 0,
            }
        }));
        Ok(())
    }
}

/// The CPU time that a process has used, all its threads together, to the nanosecond.
#[derive(Clone, Copy)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// This process.
    pub const OWN: Self = Self(libc::CLOCK_PROCESS_CPUTIME_ID);

    pub fn of(pid: libc::pid_t) -> Result<Self, Failure> {
        let mut clock = 0;
        // SAFETY: `clock` is valid for the call.
        let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
        if error != 0 {
            return Err(format!("there is no process {pid} to take the CPU time of"));
        }
        Ok(Self(clock))
    }

    pub fn now(self) -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is valid for the call. A process that is gone leaves it zero.
        unsafe { libc::clock_gettime(self.0, &raw mut time) };
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
    }
}

/// Raises the limit on open fds as far as it goes: a thousand connections are more than the usual.
pub fn allow_many_fds() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for both calls. If they fail, connecting will say so.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// From now on closing the socket resets the connection.
pub fn reset_on_close(fd: RawFd) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let size = libc::socklen_t::try_from(std::mem::size_of_val(&linger)).unwrap_or(0);
    // SAFETY: `linger` is valid for the call. A socket that cannot linger closes as usual.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size,
        );
    }
}

/// Room for a thousand connections at once; std listens with 128.
pub fn lengthen_backlog(fd: RawFd) {
    // SAFETY: no pointers. If the kernel refuses, the old backlog stands.
    unsafe { libc::listen(fd, 4096) };
}

fn failed(call: &str) -> Failure {
    format!("{call}: {}", io::Error::last_os_error())
}
