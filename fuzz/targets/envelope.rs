//! `cargo +nightly fuzz run envelope`: any bytes through `bodies/signer.rs`.
#![no_main]
#![expect(dead_code, reason = "each target runs one of the bodies")]

#[path = "../bodies/signer.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::envelope(bytes));
