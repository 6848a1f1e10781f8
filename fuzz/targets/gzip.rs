//! `cargo +nightly fuzz run gzip`: any bytes through `bodies/gzip.rs`.
#![no_main]
#![expect(dead_code, reason = "each target runs one of the bodies")]

#[path = "../bodies/gzip.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| { bodies::gzip(bytes); });
