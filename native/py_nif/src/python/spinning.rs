//! Looking again and again for a moment, instead of sleeping at once: call threads look for the next
//! call, threads that wait for Erlang for its answer. To sleep and to be woken takes longer than most
//! answers do (`bench/`: thread_call).

use std::cell::RefCell;
use std::time::{Duration, Instant};

use event_loop::{now_ns, Awaited, Spin, WaitPolicy};

use super::offer::Offer;

thread_local! {
    /// How this thread waits for Erlang.
    static HABIT: RefCell<Spin> = RefCell::new(Spin::new(&WaitPolicy::default()));
}

/// Waits until the value is `wanted`, or until then: `false`. Without the GIL.
pub fn wait<T>(awaited: &Awaited<T>, until: Option<Instant>, wanted: impl Fn(&T) -> bool) -> bool {
    let began = now_ns();
    let told = awaited.told();
    if wanted(&awaited.lock()) {
        return true;
    }
    HABIT.with_borrow_mut(|habit| {
        let is_told = || awaited.told() != told;
        if habit.budget() > 0
            && !is_over_within(until, habit.budget())
            && spin(habit, began, is_told)
            && wanted(&awaited.lock())
        {
            return true;
        }
        let met = awaited.sleep(until, wanted);
        if met {
            // A time-out tells nothing of how soon answers come.
            habit.note_wait(now_ns().saturating_sub(began));
        }
        met
    })
}

/// Whether a spin of so many nanoseconds would be longer than the wait may be.
fn is_over_within(until: Option<Instant>, ns: u64) -> bool {
    until.is_some_and(|until| {
        until.saturating_duration_since(Instant::now()) < Duration::from_nanos(ns)
    })
}

/// Spins from `began` on, for as long as `habit` says, which learns from it. `true`: `met` was.
pub fn spin(habit: &mut Spin, began: u64, met: impl Fn() -> bool) -> bool {
    let end = began.saturating_add(habit.budget());
    let mut cpu = Offer::default();
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
        match cpu.taken() {
            None => {}
            Some(taken) if taken.is_short() => shared = true,
            Some(_) => {
                habit.crowded();
                return met();
            }
        }
    }
}
