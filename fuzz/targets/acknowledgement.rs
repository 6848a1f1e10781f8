//! `cargo +nightly fuzz run acknowledgement`: any bytes through `bodies/bundle.rs`.
#![no_main]
#![allow(dead_code)]

#[path = "../bodies/bundle.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::acknowledgement(bytes));
