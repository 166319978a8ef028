//! A thread of this process, as another one sees it.

use super::time::NS_PER_SEC;

/// By the kernel's number, which another thread may have one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(libc::pid_t);

impl Thread {
    /// The one that asks.
    #[must_use]
    pub fn this() -> Self {
        // SAFETY: takes nothing and cannot fail.
        Thread(unsafe { libc::gettid() })
    }

    /// The processor time it has had, in nanoseconds. `None`: it has ended.
    #[must_use]
    pub fn cpu_ns(self) -> Option<u64> {
        // As `pthread_getcpuclockid` makes it, which wants a thread that has not ended:
        // CPUCLOCK_PERTHREAD_MASK (4) and CPUCLOCK_SCHED (2).
        let clock = (!self.0 << 3) | 6;
        let mut spent = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `spent` is a timespec of ours that outlives the call, which refuses numbers that
        // are no thread's.
        let answer = unsafe { libc::clock_gettime(clock, &raw mut spent) };
        let ns = spent.tv_sec.cast_unsigned() * NS_PER_SEC + spent.tv_nsec.cast_unsigned();
        (answer == 0).then_some(ns)
    }

    /// Whether it has a CPU or waits for one: it is not blocked. `false` if nobody knows.
    #[must_use]
    pub fn is_runnable(self) -> bool {
        let stat = std::fs::read(format!("/proc/self/task/{}/stat", self.0)).unwrap_or_default();
        // Number, name in parentheses, state; the name may have any character in it.
        let name_end = stat.iter().rposition(|byte| *byte == b')');
        name_end.is_some_and(|end| stat.get(end + 2) == Some(&b'R'))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn one_that_runs_is_told_from_one_that_waits() {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let waiting = std::thread::spawn(move || {
            tell.send(Thread::this()).unwrap();
            ended.recv().unwrap();
        });
        let other = told.recv().unwrap();
        assert_ne!(other, Thread::this());
        while other.is_runnable() {
            std::thread::yield_now();
        }
        assert!(Thread::this().is_runnable());
        assert!(other.cpu_ns().is_some());
        end.send(()).unwrap();
        waiting.join().unwrap();
        while other.cpu_ns().is_some() {
            std::thread::yield_now();
        }
        assert!(!other.is_runnable());
    }

    #[test]
    fn work_takes_processor_time() {
        let before = Thread::this().cpu_ns().unwrap();
        while Thread::this().cpu_ns().unwrap() < before + 1_000_000 {
            std::hint::spin_loop();
        }
    }
}
