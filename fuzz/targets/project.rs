//! `cargo +nightly fuzz run project`: any bytes through `bodies/centre.rs`.
#![no_main]
#![allow(dead_code)]

#[path = "../bodies/centre.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::project(bytes));
