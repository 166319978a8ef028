//! Spins for a moment instead of sleeping at once: call threads while they wait for the next call,
//! other threads while they wait for a reply from Erlang. Sleeping and being woken takes longer
//! than most replies (`bench/`: thread_call).

use std::cell::RefCell;
use std::time::{Duration, Instant};

use event_loop::{Awaited, SpinBudget, WaitPolicy, now_ns};

use super::cpu_yield::CpuYield;

thread_local! {
    /// How long waits for Erlang have taken on this thread.
    static HABIT: RefCell<SpinBudget> = RefCell::new(SpinBudget::new(&WaitPolicy::default()));
}

/// Waits until the value is `wanted`; returns `false` if it is not by `until`. Without the GIL.
pub fn wait<T>(awaited: &Awaited<T>, until: Option<Instant>, wanted: impl Fn(&T) -> bool) -> bool {
    let began = now_ns();
    let before = awaited.changes();
    if wanted(&awaited.lock()) {
        return true;
    }
    HABIT.with_borrow_mut(|habit| {
        let has_changed = || awaited.changes() != before;
        if habit.budget() > 0
            && !is_over_within(until, habit.budget())
            && spin(habit, began, has_changed)
            && wanted(&awaited.lock())
        {
            return true;
        }
        let met = awaited.sleep(until, wanted);
        if met {
            // A timeout says nothing about how soon replies come.
            habit.note_wait(now_ns().saturating_sub(began));
        }
        met
    })
}

/// Whether a spin of this many nanoseconds would be longer than the wait may be.
fn is_over_within(until: Option<Instant>, ns: u64) -> bool {
    until.is_some_and(|until| {
        until.saturating_duration_since(Instant::now()) < Duration::from_nanos(ns)
    })
}

/// Spins from `began` on, for as long as `habit` says, and records the result in it. Returns `true`
/// when `met` was true.
pub fn spin(habit: &mut SpinBudget, began: u64, met: impl Fn() -> bool) -> bool {
    let end = began.saturating_add(habit.budget());
    let mut cpu = CpuYield::default();
    let mut shared = false;
    loop {
        if met() {
            match shared {
                true => habit.handed_over(),
                false => habit.hit(),
            }
            return true;
        }
        if now_ns() >= end {
            habit.miss();
            return false;
        }
        match cpu.yield_now() {
            None => {}
            Some(away) if away.is_short() => shared = true,
            Some(_) => {
                habit.contended();
                return met();
            }
        }
    }
}
