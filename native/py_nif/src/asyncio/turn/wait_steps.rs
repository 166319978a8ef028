//! How a loop's thread waits: poll, spin, wait on the epoll set itself, park.
//!
//! Called by a turn that has nothing to run, detached from Python. The order is by the cost of a
//! wake: a spin ends at once, a direct wait in some 10 us, a parked thread in some 70 us, through
//! the VM's poller and the loop's keeper. But each later step costs the node less while waiting: a
//! parked loop costs one entry in the VM's poller.

use std::sync::Arc;

use event_loop::{EventBuffer, Parked, Ready, SpinBudget, WakeLatency, now_ns};

use crate::cpython::cpu_yield::CpuYield;
use crate::error::Result;
use crate::loops::NativeLoop;
use crate::loops::busy_share::BusyShare;

/// How often the fds are polled while there is other work. Not more often, because a poll costs as
/// much as several callbacks and this delay is not noticeable (`bench/`: call_soon chain); and not
/// less often, however much work there is.
const POLL_EVERY_NS: u64 = 50_000;

/// What a thread needs to wait on a loop. It is taken out of the loop meanwhile: two threads
/// waiting on one loop would steal each other's wake-ups.
pub struct WaitSteps {
    buffer: EventBuffer,
    spin: SpinBudget,
    /// For near deadlines.
    wake_latency: WakeLatency,
    pub ready: Vec<Ready>,
    /// Whether the fds were polled in this wait, and when the last wait with a poll began.
    polled: bool,
    last_poll: u64,
    /// The busy share of the runner whose thread waits here.
    busy: Option<Arc<BusyShare>>,
}

impl WaitSteps {
    pub fn new(native: &NativeLoop) -> Self {
        let spin = SpinBudget::new(&native.policy);
        WaitSteps {
            buffer: EventBuffer::new(),
            wake_latency: WakeLatency::new(spin.first()),
            spin,
            ready: Vec::new(),
            polled: false,
            last_poll: 0,
            busy: None,
        }
    }

    /// Records the time spent waiting in `busy`.
    pub fn recording(self, busy: Arc<BusyShare>) -> Self {
        WaitSteps {
            busy: Some(busy),
            ..self
        }
    }

    /// Collects what is ready, without waiting.
    pub fn poll(&mut self, native: &NativeLoop) -> Result<()> {
        native.core.poll_now(&mut self.buffer)?;
        native.core.resolve_into(&self.buffer, &mut self.ready);
        self.polled = true;
        Ok(())
    }

    /// Waits until something is ready, another thread wakes the loop, or `deadline` has come.
    pub fn wait(&mut self, native: &Arc<NativeLoop>, deadline: Option<u64>) -> Result<()> {
        let started = now_ns();
        let Some(busy) = self.busy.clone() else {
            return self.wait_fairly(started, native, deadline);
        };
        busy.begin_wait(started);
        let result = self.wait_fairly(started, native, deadline);
        busy.end_wait(now_ns());
        result
    }

    /// A loop that is woken again and again, before it begins to wait, still polls its fds.
    fn wait_fairly(
        &mut self,
        started: u64,
        native: &Arc<NativeLoop>,
        deadline: Option<u64>,
    ) -> Result<()> {
        self.polled = false;
        self.wait_from(started, native, deadline)?;
        if !self.polled && started.saturating_sub(self.last_poll) > POLL_EVERY_NS {
            self.poll(native)?;
        }
        if self.polled {
            self.last_poll = started;
        }
        Ok(())
    }

    fn wait_from(
        &mut self,
        started: u64,
        native: &Arc<NativeLoop>,
        deadline: Option<u64>,
    ) -> Result<()> {
        if self.spin(native, started, deadline)? {
            return Ok(());
        }
        if self.wait_directly(native, deadline)? {
            self.spin.note_wait(now_ns().saturating_sub(started));
            return Ok(());
        }
        self.park(native, deadline)
    }

    /// Returns `true` if something happened.
    fn spin(&mut self, native: &NativeLoop, started: u64, deadline: Option<u64>) -> Result<bool> {
        let budget = self.spin.budget();
        if budget == 0 {
            return Ok(false);
        }
        let end = started.saturating_add(budget);
        let spun = self.poll_until(native, end, deadline)?;
        match spun {
            Spun::Met => self.spin.hit(),
            Spun::Over => self.spin.miss(),
            Spun::HandedOver => self.spin.handed_over(),
            Spun::Contended => self.spin.contended(),
        }
        Ok(matches!(spun, Spun::Met | Spun::HandedOver))
    }

    /// Polls repeatedly, while no other thread wants this CPU.
    fn poll_until(&mut self, native: &NativeLoop, end: u64, deadline: Option<u64>) -> Result<Spun> {
        let mut cpu = CpuYield::default();
        loop {
            if native.core.parking.take_notified() {
                return Ok(Spun::Met);
            }
            self.poll(native)?;
            let now = now_ns();
            if !self.ready.is_empty() || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Spun::Met);
            }
            if now >= end {
                return Ok(Spun::Over);
            }
            if let Some(away) = cpu.yield_now() {
                let asked = away.is_short() && native.core.parking.take_notified();
                return Ok(if asked {
                    Spun::HandedOver
                } else {
                    Spun::Contended
                });
            }
        }
    }

    /// Waits on the epoll set for a few milliseconds, and until the end if the deadline is near:
    /// the kernel's timers are exact, the VM's are not. Returns `true` if there is no need to park.
    fn wait_directly(&mut self, native: &NativeLoop, deadline: Option<u64>) -> Result<bool> {
        let policy = &native.policy;
        if policy.direct_ns == 0 {
            return Ok(false);
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(now_ns()));
        if let (Some(deadline), Some(left)) = (deadline, left)
            && left < policy.near_timer_ns
        {
            return self.wait_in_time(native, deadline, left).map(|()| true);
        }
        let met = self.poll_for(native, Some(policy.direct_ns))? || !self.ready.is_empty();
        Ok(met || deadline.is_some_and(|deadline| deadline <= now_ns()))
    }

    /// Waits for a deadline that is near, `left` nanoseconds from now, and if possible not longer.
    fn wait_in_time(&mut self, native: &NativeLoop, deadline: u64, left: u64) -> Result<()> {
        let ahead = self.wake_latency.ahead(left);
        if self.poll_for(native, Some(left - ahead))? || !self.ready.is_empty() {
            return Ok(());
        }
        // What is left then is not more than `ahead`. Otherwise the next turn waits again.
        let now = now_ns();
        if !self.wake_latency.is_time(now, deadline - ahead) || now >= deadline {
            return Ok(());
        }
        match self.poll_until(native, deadline, Some(deadline))? {
            Spun::Met | Spun::Over | Spun::HandedOver => Ok(()),
            Spun::Contended => {
                self.wake_latency.contended();
                let left = deadline.saturating_sub(now_ns());
                self.poll_for(native, Some(left)).map(drop)
            }
        }
    }

    /// Returns `true` if the loop was woken.
    fn poll_for(&mut self, native: &NativeLoop, limit: Option<u64>) -> Result<bool> {
        let counters = &native.core.counters;
        let before = (counters.wakeups.get(), counters.polls.get());
        native.core.poll_direct(&mut self.buffer, limit)?;
        native.core.resolve_into(&self.buffer, &mut self.ready);
        self.polled |= counters.polls.get() != before.1;
        Ok(counters.wakeups.get() != before.0)
    }

    /// Sleeps until the VM, a timer or another thread wakes the thread.
    fn park(&mut self, native: &Arc<NativeLoop>, deadline: Option<u64>) -> Result<()> {
        native.monitor_callers();
        // The fd that the VM will watch. If the process has no fd left for it, nothing can be
        // watched either: then only a wake or the deadline can end the sleep.
        if native.core.open_set().is_err() {
            let left = deadline.map(|deadline| deadline.saturating_sub(now_ns()));
            return self.poll_for(native, left).map(drop);
        }
        native.ensure_keeper();
        let limit = native.plan_sleep(deadline);
        match native.core.park(|| native.request_arm(), limit) {
            // Another thread has work for us: the VM still watches the set, and has not reported
            // it. The next wait handles what it may report: this saves threads that post to a
            // sleeping loop a system call.
            Parked::Woken if native.core.parking.is_armed() => Ok(()),
            Parked::Woken | Parked::TimedOut => self.poll(native),
            // The loop has no keeper (the application is stopped, the router is being restarted):
            // wait on the set until the end. A new router wakes us.
            Parked::NotArmed => {
                let left = deadline.map(|deadline| deadline.saturating_sub(now_ns()));
                self.poll_for(native, left).map(drop)
            }
        }
    }
}

/// The result of a spin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spun {
    /// Something happened, or the deadline came.
    Met,
    Over,
    /// Another thread had the CPU for a moment, and posted something.
    HandedOver,
    /// Another thread wants the CPU.
    Contended,
}
