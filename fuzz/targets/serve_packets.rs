//! `cargo +nightly fuzz run serve_packets`: any bytes through `bodies/serve.rs`.
#![no_main]
#![expect(dead_code, reason = "each target runs one of the bodies")]

#[path = "../bodies/serve.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::packets(bytes));
