//! `cargo +nightly fuzz run layer`: any bytes through `bodies/layer.rs`.
#![no_main]

#[path = "../bodies/layer.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bodies::layer(bytes);
});
