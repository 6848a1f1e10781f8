//! `cargo +nightly fuzz run site_webhook`: any bytes through `bodies/hub.rs`.
#![no_main]

#[path = "../bodies/hub.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::site_webhook(bytes));
