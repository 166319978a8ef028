//! The parts of a native loop combined: epoll set, watches, parking, timerfd, life and counters.
//! The native library wraps one in each loop resource; ready queue, timer heap and inbox stay with
//! the caller, which knows their contents.

use crate::counters::Counters;
use crate::epoll::{EpollSet, EventBuffer, Interest};
use crate::error::{Error, Result};
use crate::life::Life;
use crate::parking::{Parked, Parking, TIMER_TOKEN, WAKE_TOKEN, WakeRunner};
use crate::sys::timerfd::TimerFd;
use crate::watches::{Direction, Mode, Ready, WatchId, Watches};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The timerfd, created on first use, and its current setting.
#[derive(Debug, Default)]
struct Timer {
    fd: Option<TimerFd>,
    when_ns: Option<u64>,
}

/// What one loop waits with. Any thread may watch, wake and close; polling, parking and resolving
/// belong to one thread at a time, the owner.
///
/// All descriptors are close-on-exec and are closed on drop, not by [`close`](Self::close): the
/// BEAM may still watch [`raw_fd`](Self::raw_fd), and must release it first.
#[derive(Debug)]
pub struct EventLoop {
    /// The set, whose descriptor the BEAM watches. Created on first use.
    set: OnceLock<EpollSet>,
    /// Guards the table and the order of changes to the set. Held for a few system calls at most,
    /// never while waiting or while foreign code runs.
    watches: Mutex<Watches>,
    /// Sleep and wake.
    pub parking: Parking,
    /// New, running, stopping or closed.
    pub life: Life,
    /// What it has done so far.
    pub counters: Counters,
    /// Guards the timerfd and its value, so that both change together.
    timer: Mutex<Timer>,
}

impl EventLoop {
    /// A loop that watches nothing.
    ///
    /// # Errors
    /// [`Os`](Error::Os) if there are no descriptors or memory left.
    pub fn new() -> Result<Self> {
        let new = Self::without_descriptors();
        new.set()?;
        new.parking.take_notified();
        Ok(new)
    }

    /// As [`new`](Self::new), but it creates its descriptors when it first watches or waits for
    /// one.
    #[must_use]
    pub fn without_descriptors() -> Self {
        Self::with(Parking::new())
    }

    /// A loop that may rest until its runner is woken. It creates its descriptors when it first
    /// watches or waits for one.
    #[must_use]
    pub fn with_runner(runner: Arc<dyn WakeRunner>) -> Self {
        Self::with(Parking::with_runner(runner))
    }

    fn with(parking: Parking) -> Self {
        Self {
            set: OnceLock::new(),
            watches: Mutex::default(),
            parking,
            life: Life::new(),
            counters: Counters::default(),
            timer: Mutex::default(),
        }
    }

    /// Creates the set if necessary, and returns its descriptor.
    ///
    /// # Errors
    /// [`Os`](Error::Os) if there are no descriptors or memory left.
    pub fn open_set(&self) -> Result<RawFd> {
        self.set().map(EpollSet::raw_fd)
    }

    /// The epoll set, with the bell in it.
    fn set(&self) -> Result<&EpollSet> {
        if let Some(set) = self.set.get() {
            return Ok(set);
        }
        let set = EpollSet::new()?;
        set.add(self.parking.bell().fd()?, Interest::SIGNAL, WAKE_TOKEN)?;
        // If another thread was first, ours is closed again; the bell is the same.
        let set = self.set.get_or_init(|| set);
        // An owner that sleeps without a set must see the new one.
        self.wake();
        Ok(set)
    }

    /// The epoll set's descriptor, readable exactly while there are events. `None` for a loop that
    /// has neither watched nor waited for one yet.
    #[must_use]
    pub fn raw_fd(&self) -> Option<RawFd> {
        self.set.get().map(EpollSet::raw_fd)
    }

    /// See [`Watches::watch`].
    ///
    /// # Errors
    /// As there, and [`Closed`](Error::Closed).
    pub fn watch(&self, fd: RawFd, dir: Direction, key: u64, mode: Mode) -> Result<WatchId> {
        let set = self.set()?;
        self.open_watches()?.watch(set, fd, dir, key, mode)
    }

    /// Ends a watch; `false` if it had ended already.
    pub fn unwatch(&self, id: WatchId, dir: Direction) -> bool {
        self.set
            .get()
            .is_some_and(|set| lock(&self.watches).unwatch(set, id, dir))
    }

    /// Ends any watch of `fd` in this direction and returns its key.
    pub fn unwatch_fd(&self, fd: RawFd, dir: Direction) -> Option<u64> {
        let set = self.set.get()?;
        lock(&self.watches).unwatch_fd(set, fd, dir)
    }

    /// See [`Watches::pause`].
    ///
    /// # Errors
    /// As there, and [`Closed`](Error::Closed).
    pub fn pause(&self, id: WatchId, dir: Direction) -> Result<()> {
        let set = self.set()?;
        self.open_watches()?.pause(set, id, dir)
    }

    /// See [`Watches::pause_fd`].
    ///
    /// # Errors
    /// As there, and [`Closed`](Error::Closed).
    pub fn pause_fd(&self, fd: RawFd, dir: Direction) -> Result<()> {
        let set = self.set()?;
        self.open_watches()?.pause_fd(set, fd, dir)
    }

    /// See [`Watches::resume`].
    ///
    /// # Errors
    /// As there, and [`Closed`](Error::Closed).
    pub fn resume(&self, id: WatchId, dir: Direction) -> Result<()> {
        let set = self.set()?;
        self.open_watches()?.resume(set, id, dir)
    }

    /// Ends both watches of `fd`. Call it before `fd` is closed.
    pub fn forget_fd(&self, fd: RawFd) {
        if let Some(set) = self.set.get() {
            lock(&self.watches).forget_fd(set, fd);
        }
    }

    /// The key watching `fd` in this direction, paused or not.
    #[must_use]
    pub fn watch_key(&self, fd: RawFd, dir: Direction) -> Option<u64> {
        lock(&self.watches).key(fd, dir)
    }

    /// The watched descriptors, in any order.
    #[must_use]
    pub fn watched_fds(&self) -> Vec<RawFd> {
        lock(&self.watches).fds().collect()
    }

    /// How many descriptors are watched.
    #[must_use]
    pub fn watched_len(&self) -> usize {
        lock(&self.watches).len()
    }

    /// Makes the set ready at `when_ns`, or never. No system call if this is set already.
    ///
    /// # Errors
    /// [`Closed`](Error::Closed), or [`Os`](Error::Os) if the timerfd cannot be created.
    pub fn set_timer(&self, when_ns: Option<u64>) -> Result<()> {
        let mut timer = lock(&self.timer);
        self.check_open()?;
        if timer.when_ns == when_ns {
            return Ok(());
        }
        if timer.fd.is_none() {
            let fd = TimerFd::new()?;
            self.set()?
                .add(fd.raw_fd(), Interest::SIGNAL, TIMER_TOKEN)?;
            timer.fd = Some(fd);
        }
        if let Some(fd) = &timer.fd {
            fd.set(when_ns)?;
        }
        timer.when_ns = when_ns;
        Ok(())
    }

    /// Takes what is ready, without waiting.
    ///
    /// # Errors
    /// [`Closed`](Error::Closed), or the kernel's error.
    pub fn poll_now(&self, buf: &mut EventBuffer) -> Result<usize> {
        self.check_open()?;
        match self.set.get() {
            Some(set) => set.poll(buf, Some(0)),
            None => {
                buf.clear();
                Ok(0)
            }
        }
    }

    /// Waits on the set itself, at most `timeout_ns`. A wake ends the wait, or prevents it (then
    /// without events, even if there are some). Without a set, waits for a wake.
    ///
    /// # Errors
    /// [`Closed`](Error::Closed), or the kernel's error.
    pub fn poll_direct(&self, buf: &mut EventBuffer, timeout_ns: Option<u64>) -> Result<usize> {
        buf.clear();
        self.check_open()?;
        let Some(set) = self.set.get() else {
            // A thread that creates a set meanwhile wakes us.
            self.counters.polls.add_owned(1);
            if self.parking.sleep(timeout_ns) {
                self.counters.wakeups.add_owned(1);
            }
            return Ok(0);
        };
        if !self.parking.begin_polling() {
            self.counters.wakeups.add_owned(1);
            return Ok(0);
        }
        self.counters.polls.add_owned(1);
        let outcome = set.poll(buf, timeout_ns);
        if self.parking.end_polling() {
            self.counters.wakeups.add_owned(1);
        }
        outcome
    }

    /// Sleeps while the BEAM watches the set; see [`Parking::park`].
    pub fn park(&self, arm: impl FnOnce() -> bool, timeout_ns: Option<u64>) -> Parked {
        let parked = self.parking.park(arm, timeout_ns);
        if parked != Parked::NotArmed {
            self.counters.parks.add_owned(1);
        }
        if parked == Parked::Woken {
            self.counters.wakeups.add_owned(1);
        }
        parked
    }

    /// Makes the owner check everything again. From any thread.
    pub fn wake(&self) {
        self.parking.wake();
    }

    /// Determines which watches the polled events concern and appends them to `out`, under one
    /// lock. The bell and the timer are left out: they only had to end the wait.
    pub fn resolve_into(&self, buf: &EventBuffer, out: &mut Vec<Ready>) {
        let (false, Some(set)) = (buf.is_empty(), self.set.get()) else {
            return;
        };
        let before = out.len();
        let mut stale = 0;
        let mut watches = lock(&self.watches);
        for event in buf.iter() {
            match event.token {
                WAKE_TOKEN => {}
                // It fired: setting it to the same time again is a change.
                TIMER_TOKEN => lock(&self.timer).when_ns = None,
                _ => match watches.resolve(set, &event) {
                    Ready {
                        read: None,
                        write: None,
                        ..
                    } => stale += 1,
                    ready => out.push(ready),
                },
            }
        }
        drop(watches);
        self.counters.events.add_owned((out.len() - before) as u64);
        self.counters.stale_events.add_owned(stale);
    }

    /// Closes the loop and removes all watches; `true` for the one call that did it. Waiting
    /// threads are woken and will get [`Closed`](Error::Closed).
    ///
    /// # Errors
    /// [`Running`](Error::Running): stop it first.
    pub fn close(&self) -> Result<bool> {
        let first = self.life.close()?;
        if first {
            if let Some(set) = self.set.get() {
                // After the state, so that no watch can be added in between: see `open_watches`.
                lock(&self.watches).clear(set);
                if let Some(fd) = lock(&self.timer).fd.take() {
                    let _gone_already = set.delete(fd.raw_fd());
                }
            }
            self.wake();
        }
        Ok(first)
    }

    fn check_open(&self) -> Result<()> {
        if self.life.is_closed() {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// The state is read under the lock: a closing loop clears the table after changing it.
    fn open_watches(&self) -> Result<MutexGuard<'_, Watches>> {
        let watches = lock(&self.watches);
        self.check_open()?;
        Ok(watches)
    }
}

/// After a panic with one of these locks held, table and kernel differ by at most one watch. Later
/// calls handle that, as they do an fd that was closed without notice. Stopping the loop would be
/// worse, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
