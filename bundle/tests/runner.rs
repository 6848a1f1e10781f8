//! All integration tests of the crate, as one binary.
//!
//! `attacks`: one test per attack on a bundle, named after it. `properties`: round trips, and that no
//! bytes whatever make a reader panic. `memory`: that size does not show in memory.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

mod attacks;
mod hub_api;
mod memory;
mod properties;

#[path = "../../fuzz/bodies/bundle.rs"]
mod bodies;
