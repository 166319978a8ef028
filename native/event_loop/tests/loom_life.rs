//! Is there one state at a time, whichever thread changes it? All interleavings.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::{Error, Life, State};
use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;

#[test]
fn one_of_two_starts_it() {
    loom::model(|| {
        let life = Arc::new(Life::new());
        let other = {
            let life = Arc::clone(&life);
            thread::spawn(move || life.start().is_ok())
        };
        let mine = life.start().is_ok();
        assert!(mine != other.join().expect("starter"));
        assert_eq!(life.state(), State::Running);
    });
}

/// The next thread to run it sees everything that the previous one did: `Cell` is an error
/// otherwise.
#[test]
fn one_runs_it_after_the_other() {
    loom::model(|| {
        let shared = Arc::new((Life::new(), Cell::new(0)));
        let run = |shared: &(Life, Cell<i32>)| {
            if shared.0.start().is_ok() {
                shared.1.set(shared.1.get() + 1);
                shared.0.stopped().expect("this one runs it");
            }
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || run(&shared))
        };
        run(&shared);
        other.join().expect("runner");
        assert!((1..=2).contains(&shared.1.get()));
    });
}

#[test]
fn it_is_closed_or_runs_never_both() {
    loom::model(|| {
        let life = Arc::new(Life::new());
        let runner = {
            let life = Arc::clone(&life);
            thread::spawn(move || match life.start() {
                Ok(()) => {
                    assert!(life.is_running(), "no other thread closes it");
                    life.stopped().expect("this one runs it");
                }
                Err(error) => assert_eq!(error, Error::Closed),
            })
        };
        let stopper = {
            let life = Arc::clone(&life);
            thread::spawn(move || {
                let _ = life.request_stop();
            })
        };
        let closed = life.close();
        runner.join().expect("runner");
        stopper.join().expect("stopper");
        match closed {
            Ok(first) => assert!(first && life.is_closed()),
            Err(error) => assert_eq!((error, life.state()), (Error::Running, State::New)),
        }
        assert_eq!(life.close(), Ok(closed.is_err()), "once");
    });
}
