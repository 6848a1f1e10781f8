//! `cargo +nightly fuzz run chart_index`: any bytes through `bodies/centre.rs`.
#![no_main]
#![expect(dead_code, reason = "each target runs one of the bodies")]

#[path = "../bodies/centre.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::chart_index(bytes));
