//! `cargo +nightly fuzz run inbox`
#![no_main]

#[path = "../harness/bytes.rs"]
mod bytes;
#[path = "../harness/inbox.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
