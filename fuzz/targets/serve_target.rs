//! `cargo +nightly fuzz run serve_target`: any bytes through `bodies/serve.rs`.
#![no_main]
#![allow(dead_code)]

#[path = "../bodies/serve.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::target(bytes));
