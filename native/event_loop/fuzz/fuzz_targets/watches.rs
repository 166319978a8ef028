//! `cargo +nightly fuzz run watches`
#![no_main]

#[path = "../harness/bytes.rs"]
mod bytes;
#[path = "../harness/watches.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
