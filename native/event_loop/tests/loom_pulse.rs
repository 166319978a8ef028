//! Is a turn that has just begun ever mistaken for a long one? All interleavings.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test 'loom_*'`
#![cfg(loom)]

use event_loop::Pulse;
use loom::sync::Arc;
use loom::thread;

/// The first turn lasts from 1 to 1,000; the second has lasted for 5 at most when it is read.
#[test]
fn a_new_turn_has_not_lasted() {
    loom::model(|| {
        let pulse = Arc::new(Pulse::new());
        pulse.begins(1);
        // The reader has the other thread: loom overlooks interleavings with a thread that reads
        // a word before it writes it.
        let watchdog = {
            let pulse = Arc::clone(&pulse);
            thread::spawn(move || match pulse.awake_for(1005) {
                None | Some((0, _)) => {}
                Some((1, lasted)) => assert!(lasted <= 5, "{lasted}"),
                Some(wrong) => panic!("{wrong:?}"),
            })
        };
        pulse.turned(1000);
        pulse.rests();
        pulse.begins(1003);
        watchdog.join().expect("watchdog");
        assert_eq!(pulse.awake_for(1005), Some((1, 2)));
    });
}
