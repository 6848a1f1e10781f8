//! `cargo +nightly fuzz run signature`: any bytes through `bodies/signature.rs`.
#![no_main]

#[path = "../bodies/signature.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    assert!(!bodies::signature(bytes));
});
