//! Is only the intended call ever interrupted? All interleavings.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::interruptible::Interruptible;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// As in `loom_parking.rs`: seconds instead of minutes.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

#[derive(Default)]
struct Thread {
    calls: Interruptible<false>,
    /// An interrupt that was sent and has not been raised: the number of the call that it is for.
    pending: AtomicU64,
}

impl Thread {
    fn interrupt(&self, number: u64) {
        self.calls
            .send(number, || self.pending.store(number, Ordering::Relaxed));
    }

    /// As `cpython/interrupt.rs` of the native library does it.
    fn switch(&self, to: u64) {
        if self.calls.switch(to).1 {
            self.pending.store(0, Ordering::Relaxed);
        }
    }

    /// The thread runs code here: a pending interrupt would be raised in it.
    fn runs(&self, number: u64) {
        let pending = self.pending.load(Ordering::Relaxed);
        assert!(pending == 0 || pending == number, "{pending} in {number}");
    }
}

fn interrupter(thread: &Arc<Thread>, numbers: &'static [u64]) -> thread::JoinHandle<()> {
    let thread = Arc::clone(thread);
    thread::spawn(move || numbers.iter().for_each(|&number| thread.interrupt(number)))
}

#[test]
fn nothing_is_left_when_the_call_has_ended() {
    check(|| {
        let thread = Arc::new(Thread::default());
        let one = interrupter(&thread, &[1]);
        let other = interrupter(&thread, &[2, 1]);
        thread.switch(1);
        thread.runs(1);
        thread.switch(0);
        thread.runs(0);
        one.join().expect("one");
        other.join().expect("other");
        thread.runs(0);
    });
}

#[test]
fn the_next_call_is_left_alone() {
    check(|| {
        let thread = Arc::new(Thread::default());
        thread.switch(1);
        let one = interrupter(&thread, &[1]);
        thread.switch(2);
        thread.runs(2);
        thread.switch(0);
        one.join().expect("one");
        thread.runs(0);
    });
}
