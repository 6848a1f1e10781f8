//! `cargo +nightly fuzz run explanation`: any bytes through `bodies/bundle.rs`.
#![no_main]
#![expect(dead_code, reason = "each target runs one of the bodies")]

#[path = "../bodies/bundle.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::explanation(bytes));
