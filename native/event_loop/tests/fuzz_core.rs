//! The programs of `cargo fuzz` (`fuzz/`), with random bytes instead of a fuzzer's: some thousand
//! in each test, with a seed that is printed and can be passed in again.
//!
//! `FUZZ_SEED=7 FUZZ_INPUTS=100000 cargo test --test fuzz_core -- --nocapture`
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)] // a test: also outside its `#[test]` functions

#[path = "../fuzz/harness/bytes.rs"]
mod bytes;
#[path = "../fuzz/harness/inbox.rs"]
mod inbox;
#[allow(dead_code)] // its watchdog: nothing here waits
mod support;
#[path = "../fuzz/harness/timers.rs"]
mod timers;
#[path = "../fuzz/harness/watches.rs"]
mod watches;

use std::time::{SystemTime, UNIX_EPOCH};
use support::Random;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn fuzz(name: &str, inputs: u64, run: fn(&[u8])) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = setting("FUZZ_SEED").unwrap_or_else(|| now().as_micros() as u64);
    let inputs = setting("FUZZ_INPUTS").unwrap_or(inputs);
    // Shown when the test fails.
    println!("{name}: FUZZ_SEED={seed}, {inputs} inputs");
    let mut random = Random::new(seed);
    for _ in 0..inputs {
        let length = random.below(600);
        let data: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        run(&data);
    }
}

#[test]
fn inbox_does_what_a_queue_does() {
    fuzz("inbox", 5_000, inbox::run);
}

#[test]
fn timers_do_what_a_sorted_list_does() {
    fuzz("timers", 5_000, timers::run);
}

#[test]
fn events_reach_the_right_watches() {
    fuzz("watches", 2_000, watches::run);
}
