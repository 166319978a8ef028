//! `cargo +nightly fuzz run timers`
#![no_main]

#[path = "../harness/bytes.rs"]
mod bytes;
#[path = "../harness/timers.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
